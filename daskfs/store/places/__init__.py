"""Local disks, object stores and fsspec URLs behind one interface, the class `Location`."""
