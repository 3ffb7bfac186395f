SwaggerUIBundle({
  url: "/v1/openapi.json",
  dom_id: "#api",
  deepLinking: true,
  docExpansion: "none",
  filter: true,
  // Nobody else is asked about our document.
  validatorUrl: null,
});
