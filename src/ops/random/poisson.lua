-- Random numbers from Poisson distributions.

op {"poisson(Tensor self, *, Generator generator=nil) -> Tensor",
    doc = [[Numbers drawn from the Poisson distributions whose rates, of at least 0, self holds, in
    self's dtype.]],
    grad = {self = "zeros_like(grad)"}, gradcheck = false, nondiff = "random numbers",
    waits = "drawn on the CPU", examples = {"P(3)"}}
