-- Quantiles.

local ranks = ", dim dim=nil, bool keepdim=false, *, string interpolation='linear') -> Tensor"
for _, row in ipairs {{"quantile", "; a NaN makes the result NaN"},
   {"nanquantile", "; NaN elements are left out"}} do
   op {row[1] .. "(Tensor self, float q" .. ranks,
       node = "Squeeze", doc = "Returns the q-quantile along dim, or of all elements" .. row[2]
          .. [[. interpolation chooses the result between two elements: 'linear', 'lower',
          'higher', 'nearest' or 'midpoint'.]],
       composite = true, autocast = {cpu = "float32"},
       examples = {"T(3, 5), 0.3", "T(3, 5), 0.6, 2",
                   "T(3, 5), 0.6, 1, true, {interpolation = 'lower'}",
                                     "T(4), 0.25, {interpolation = 'midpoint'}"}}
   op {row[1] .. ".several(Tensor self, Tensor q" .. ranks,
       node = "Squeeze",
       doc = "The same for each of several q, which are a new first dimension of the result.",
       composite = true, autocast = {cpu = "float32"},
       examples = {"T(3, 5), torch.tensor({0.1, 0.5}, {dtype = 'float64'}), 2"}}
end
example("quantile", [[
   print(torch.tensor({1.0, 2.0, 3.0, 4.0}):quantile(0.5):item())
   --> 2.5]])
