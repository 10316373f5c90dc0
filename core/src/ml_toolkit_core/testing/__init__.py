"""What tests of the core and of backends are built with."""
