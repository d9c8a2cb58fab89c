"""What runs where: rules from the chip upwards, and the evidence that says so outright.

    generation of a chip -> runtimes that drive it -> builds of an engine -> formats, kinds of model

Each layer is a table of records with a source, read top down; `verdicts.verdict` joins them. A rule that forbids comes
first, then what somebody wrote down or measured, then what follows from the rules; the rest is refused for what is
missing. Evidence is a row of the catalogue per engine and family (`records.EngineSupport`), or a published result.
"""
