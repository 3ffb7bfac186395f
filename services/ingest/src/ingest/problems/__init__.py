"""Problems, and publishing them."""
