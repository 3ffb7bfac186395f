"""The guest process: it holds the submission and is believed in nothing."""
