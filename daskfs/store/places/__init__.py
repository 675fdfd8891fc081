"""Local disks, object stores and any URL that fsspec knows, behind one interface: `Location`."""
