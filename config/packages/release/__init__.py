"""How a release is built: see `config/packages/build --help`."""
