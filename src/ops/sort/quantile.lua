-- Quantiles.

local ranks = ", dim dim=nil, bool keepdim=false, *, string interpolation='linear') -> Tensor"
for _, row in ipairs {{"quantile", "; NaN where there is one"},
   {"nanquantile", ", of what is not NaN"}} do
   op {row[1] .. "(Tensor self, float q" .. ranks,
       node = "Squeeze", doc = "The q-quantile along dim, or of all elements" .. row[2]
          .. [[. Between two elements it is 'linear', 'lower', 'higher', 'nearest' or their
          'midpoint'.]],
       composite = true, autocast = {cpu = "float32"},
       examples = {"T(3, 5), 0.3", "T(3, 5), 0.6, 2",
                   "T(3, 5), 0.6, 1, true, {interpolation = 'lower'}",
                                     "T(4), 0.25, {interpolation = 'midpoint'}"}}
   op {row[1] .. ".several(Tensor self, Tensor q" .. ranks,
       node = "Squeeze",
       doc = "The same for each of several q, in a first dimension of the result.",
       composite = true, autocast = {cpu = "float32"},
       examples = {"T(3, 5), torch.tensor({0.1, 0.5}, {dtype = 'float64'}), 2"}}
end
example("quantile", [[
   print(torch.tensor({1.0, 2.0, 3.0, 4.0}):quantile(0.5):item())
   --> 2.5]])
