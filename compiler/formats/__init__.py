"""The formats of files, for code that reads them (`frontends`), writes them (`targets`) or runs their operators (`runtime`)."""
