"""One module or folder per wire API.  Nothing here imports an SDK."""
