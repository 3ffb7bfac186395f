"""What every route needs: authentication, middleware, common models, the API document."""
