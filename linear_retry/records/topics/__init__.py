"""The topics that a consumer needs beside its sources: names, settings and problems."""
