"""Everything that is generated and kept in git: what it is made from, how, and a stamp that says whether it holds."""
