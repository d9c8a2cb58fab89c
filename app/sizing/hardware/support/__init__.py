"""Software support on hardware: rules from the chip upwards, and direct evidence.

    generation of a chip -> runtimes that drive it -> builds of an engine -> formats, kinds of model

Each layer is a table of records with sources, read in order; `verdicts.verdict` combines them. A rule that forbids
comes first, then documented or measured evidence, then what follows from the rules. Anything else is refused, and
the refusal names the missing layer. Evidence is a row of the catalog per engine and family
(`records.EngineSupport`), or a published result.
"""
