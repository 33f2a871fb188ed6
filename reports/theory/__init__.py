"""What a step must move and compute, from its model's configuration alone.

    Architecture.from_config(config)   the shapes of a model            architecture.py, families.py
    operators as formulas              shapes -> FLOPs, bytes            operators.py, attention.py
    step_theory(architecture, shape)   a step as a sum of operators     layers.py, step.py
    gpu("4090").roof("bfloat16")       peaks, each with its source      gpus.py, gpus.toml
    floors, bounds, crossover          step and roof together           floor.py, crossover.py

1 MAC = 2 FLOP. Nothing here imports torch or pandas. docs/theory.md derives every formula.
"""
