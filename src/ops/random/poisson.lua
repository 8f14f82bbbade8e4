-- Operators that draw random numbers from Poisson distributions.

op {"poisson(Tensor self, *, Generator generator=nil) -> Tensor",
    doc = [[Draws numbers, in self's dtype, from the Poisson distributions whose rates self holds;
    rates are at least 0.]],
    grad = {self = "zeros_like(grad)"}, gradcheck = false, nondiff = "random numbers",
    waits = "drawn on the CPU", examples = {"P(3)"}}
