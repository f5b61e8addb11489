"""`python -m geoact` is `geoact`."""

from geoact.cli import main

raise SystemExit(main())
