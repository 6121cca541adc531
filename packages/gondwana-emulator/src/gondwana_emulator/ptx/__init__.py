"""A machine for PTX, the assembly language of NVIDIA GPUs: it is parsed, and translated to code of the processor.

`parse` reads the text, with the words of `lex` and the operands of `operands`. `inline` puts called functions into
their callers, `flow` finds the registers that are alive where threads wait, `translate` writes LLVM's language with the
functions of `instructions`. `program` compiles it and runs it on grids with the loop in `schedule`.
"""
