-- Operators that compute several reductions at once, counts, and statistics derived from means and
-- distances.

local dims = "dim[] dim=nil"
local spread = dims .. ", *, Number correction=1, bool unbiased=true, bool keepdim=false"

op {"std_mean(Tensor self, " .. spread .. ") -> (Tensor std, Tensor mean)",
    node = "StdMean",
    doc = "Returns the standard deviation and the mean over dim.", composite = true,
    examples = {"T(3, 4)", "T(3, 4), 2", "T(3, 4), 1, {correction = 0, keepdim = true}"}}
op {"var_mean(Tensor self, " .. spread .. ") -> (Tensor var, Tensor mean)",
    node = "VarMean", doc = "Returns the variance and the mean over dim.", composite = true,
    examples = {"T(3, 4)", "T(3, 4), 2", "T(3, 4), 1, {correction = 0, keepdim = true}"}}
for _, name in ipairs {"std_mean", "var_mean"} do
   local results = " -> (Tensor " .. name:sub(1, 3) .. ", Tensor mean)"
   local node = name == "std_mean" and "StdMean" or "VarMean"
   op {name .. ".unbiased(Tensor self, bool unbiased)" .. results,
       doc = "The same with correction 1 (true) or 0 (false).", composite = true, node = node,
       examples = {"T(3, 4), false"}}
   op {name .. ".dim(Tensor self, dim[] dim, bool unbiased, bool keepdim=false)" .. results,
       doc = "The same with correction 1 (true) or 0 (false).", composite = true, node = node,
       examples = {"T(3, 4), 2, false, true"}}
end
op {"aminmax(Tensor self, *, dim dim=nil, bool keepdim=false) -> (Tensor min, Tensor max)",
    doc = [[Returns the smallest and the largest element along dim, or of all elements; NaN if there
    is one.]],
    node = "Aminmax", composite = true,
    examples = {"T(3, 4)", "T(3, 4), {dim = 2, keepdim = true}"}}
op {"dist(Tensor self, Tensor other, Number p=2) -> Tensor",
    doc = "Returns the p-norm of self - other.",
    node = "Dist", expr = "norm(self - other, p)",
    autocast = {gpu = "float32"}, examples = {"T(3, 4), T(4)", "T(3), T(3), 1"}}
op {"trace(Tensor self) -> Tensor", node = "Trace",
    doc = "Returns the sum of the diagonal of a matrix.", composite = true,
    autocast = {cpu = "float32"},
    examples = {"T(3, 4)", "T(0, 2)"}}
example("trace", [[
   print(torch.tensor({{1, 2}, {3, 4}}):trace():item())
   --> 5]])

op {"cov(Tensor self, *, Number correction=1, Tensor fweights=nil, Tensor aweights=nil) -> Tensor",
    doc = [[Returns the covariance matrix of the variables in self's rows. Columns are observations;
    fweights (integers) says how often each was made, aweights how much it counts.]],
    composite = true, node = "Squeeze", waits = "weights are checked on the host",
    autocast = "result",
    examples = {"T(3, 5)", "T(5)", "T(2, 4), {correction = 0, aweights = P(4)}"}}
op {"corrcoef(Tensor self) -> Tensor",
    doc = "Returns the correlation coefficients of the variables in self's rows.",
    composite = true, autocast = "result", examples = {"T(3, 5)", "T(5)"}}

-- Counting ----------------------------------------------------------------------------------------

op {"bincount(Tensor self, Tensor weights=nil, int minlength=0) -> Tensor",
    doc = [[Counts how often each position, from 1, occurs in a vector of integers, as int64; with
    weights sums the weights of its occurrences.]],
    composite = true, waits = "the result's size depends on the data",
    nondiff = "counts", examples = {"I(4, 10)", "I(4, 10), P(10), 6"}}
example("bincount", [[
   local labels = torch.tensor {1, 3, 3, 4}
   print(labels:bincount()) -- the first count is that of the value 0
   --> tensor([1, 0, 2, 1])]])
op {"histc(Tensor self, int bins=100, Number min=0, Number max=0) -> Tensor",
    doc = [[Counts, in self's dtype, how many elements fall into each of `bins` equal parts of [min,
    max]. If min equals max, the range is that of the elements. NaN and elements outside the range
    are not counted.]],
    composite = true, waits = "its range is read",
    nondiff = "counts", examples = {"T(20), 5", "T(20), 4, -1, 1"}}
example("histc", [[
   print(torch.tensor({0.5, 1.5, 1.6, 3.0}):histc(3, 0, 3))
   --> tensor([1., 2., 1.])]])
local options = "*, float[] range=nil, Tensor weight=nil, bool density=false"
local histogram = " -> (Tensor hist, Tensor bin_edges)"
op {"histogram(Tensor self, int bins, " .. options .. ")" .. histogram,
    doc = [[Counts how many elements fall into each of `bins` equal parts of range = {min, max}, by
    default that of the elements; returns the counts and the parts' edges. With weight each element
    counts as its weight; with density the integral over the parts is 1.]],
    composite = true, waits = "its range is read",
    nondiff = "counts", examples = {"T(20), 5", "T(20), 4, {range = {-1, 1}, density = true}"}}
op {"histogram.edges(Tensor self, Tensor bins, *, Tensor weight=nil, bool density=false)"
      .. histogram,
    doc = "The same for parts between given edges, in ascending order.",
    composite = true, waits = "its edges are read",
    nondiff = "counts", examples = {"T(20), torch.tensor({-1, 0, 0.5, 2}, {dtype = 'float64'})"}}

takes_complex [[trace std_mean std_mean_unbiased std_mean_dim var_mean var_mean_unbiased
   var_mean_dim cov corrcoef]]
