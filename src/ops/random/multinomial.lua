-- Draws random indices with probabilities proportional to weights.

local given = "*, Generator generator=nil"
op {"multinomial(Tensor self, int num_samples, bool replacement=false, " .. given .. ") -> Tensor",
    doc = [[Draws positions in proportion to their weights from each row of self, a vector or matrix
    of weights of at least 0. Without replacement no position is drawn twice from a row.]],
    composite = true, nondiff = "positions", waits = "drawn on the CPU",
    examples = {"P(5), 3", "P(2, 5), 7, true"}}
example("multinomial", [[
   torch.manual_seed(0)
   local weights = torch.tensor {0.0, 3.0, 1.0} -- weights need not sum to 1
   local drawn = weights:multinomial(100, true) -- true draws with replacement
   print(drawn:eq(1):any():item(), drawn:min():item(), drawn:max():item())
   --> false	2	3]])
