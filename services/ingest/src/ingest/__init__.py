"""The one public HTTP door: takes submissions and problems in, passes reads on."""
