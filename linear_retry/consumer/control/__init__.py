"""What operators ask for, from the program or over the control topic: retry, give up, pause."""
