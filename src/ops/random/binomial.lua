-- Operators that draw random numbers from binomial distributions.

op {"binomial(Tensor count, Tensor prob, *, Generator generator=nil) -> Tensor",
    doc = "Draws the number of successes in count trials of probability prob, in prob's dtype.",
    method = false, grad = {count = "zeros_like(count)", prob = "zeros_like(prob)"},
    gradcheck = false, nondiff = "random numbers", waits = "drawn on the CPU",
    examples = {"I(9, 3), P(3):clamp(0, 1)", "I(9, 2, 3), P(3):clamp(0, 1)"}}
example("binomial", [[
   torch.manual_seed(0)
   local heads = torch.binomial(torch.full({1000}, 10.0), torch.tensor(0.5))
   print(heads:max():item() <= 10, (heads:mean() - 5):abs():item() < 0.2)
   --> true	true]])
