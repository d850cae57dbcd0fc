"""Training over slow links: `shoal train`, or these modules. The README of this folder says what each is for."""
