"""States of the pages: readable, and with words of their own, whatever is going on."""
