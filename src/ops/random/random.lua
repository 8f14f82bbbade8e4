-- Operators that draw random numbers. All numbers come from a generator's stream; the default
-- generator belongs to the Lua state. A seed therefore gives the same numbers on every device and
-- with any number of threads.

local given = "*, Generator generator=nil"
local options = given .. ", dtype dtype=nil, device device=nil"
local format = ", string memory_format=nil"

local function create(entry)
   entry.creation, entry.method, entry.nondiff = true, false, "random numbers"
   entry.composite = true
   op(entry)
end

create {"rand(int[] size..., " .. options .. ") -> Tensor",
    doc = "Draws numbers uniformly from [0, 1); float32 unless dtype is given."}
example("rand", [[
   torch.manual_seed(0)
   local x = torch.rand(2, 3) -- numbers are uniform in [0, 1)
   print(x:ge(0):all():item(), x:lt(1):all():item())
   --> true	true]])
create {"randn(int[] size..., " .. options .. ") -> Tensor",
    doc = [[Draws numbers from the normal distribution of mean 0 and variance 1; float32 unless
    dtype is given.]]}
example("randn", [[
   torch.manual_seed(0)
   local x = torch.randn(10000) -- numbers have a standard normal distribution
   print(x:mean():abs():item() < 0.05, math.abs(x:std():item() - 1) < 0.05)
   --> true	true]])
create {"randint(int low, int high, int[] size, " .. options .. ") -> Tensor",
    doc = "Draws integers uniformly from low to high - 1; int64 unless dtype is given."}
example("randint", [[
   torch.manual_seed(0)
   local x = torch.randint(1, 7, {1000}) -- 1 is included, 7 is not
   print(x:min():item(), x:max():item(), x.dtype)
   --> 1	6	int64]])
create {"randint.high(int high, int[] size, " .. options .. ") -> Tensor",
    doc = "The same with low = 0."}
create {"randperm(int n, " .. options .. ") -> Tensor",
    doc = "Returns the positions 1 to n in random order; int64 unless dtype is given."}
example("randperm", [[
   torch.manual_seed(0)
   local order = torch.randperm(4) -- the positions 1 to 4 in random order
   print((order:sort()))
   --> tensor([1, 2, 3, 4])]])
create {"rand_like(Tensor self, " .. options .. format .. ") -> Tensor",
    doc = [[Draws as rand does, in self's shape, and in its dtype, device and order of memory unless
    given.]]}
create {"randn_like(Tensor self, " .. options .. format .. ") -> Tensor",
    doc = [[Draws as randn does, in self's shape, and in its dtype, device and order of memory
    unless given.]]}
create {"randint_like(Tensor self, int low, int high, " .. options .. format .. ") -> Tensor",
    doc = [[Draws as randint does, in self's shape, and in its dtype, device and order of memory
    unless given.]]}
create {"randint_like.high(Tensor self, int high, " .. options .. format .. ") -> Tensor",
    doc = "The same with low = 0."}

op {"normal(Tensor mean, Tensor std, " .. given .. ") -> Tensor",
    doc = "Draws each number from a normal distribution with its own mean and standard deviation.",
    composite = true, nondiff = "random numbers"}
example("normal", [[
   torch.manual_seed(0)
   local x = torch.normal(5.0, 0.1, {1000})
   print(math.abs(x:mean():item() - 5) < 0.02)
   --> true]])
op {"normal.mean(Tensor mean, float std=1, " .. given .. ") -> Tensor",
    doc = "The same with one standard deviation for all numbers.",
    composite = true, nondiff = "random numbers"}
op {"normal.std(float mean, Tensor std, " .. given .. ") -> Tensor",
    doc = "The same with one mean for all numbers.", composite = true, nondiff = "random numbers"}
create {"normal.size(float mean, float std, int[] size, " .. options .. ") -> Tensor",
    doc = "Draws all numbers from one normal distribution."}

-- In place ----------------------------------------------------------------------------------------

local function fill(schema, doc, example)
   op {schema .. " -> self", doc = doc, func = false, grad = {self = "zeros_like(grad)"},
       gradcheck = false, nondiff = "random numbers", examples = {example or "T(3)"}}
end

fill("uniform_(Tensor self, float from=0, float to=1, " .. given .. ")",
   "Fills self with numbers drawn uniformly from [from, to).")
fill("normal_(Tensor self, float mean=0, float std=1, " .. given .. ")",
   "Fills self with numbers drawn from a normal distribution.")
fill("log_normal_(Tensor self, float mean=1, float std=2, " .. given .. ")",
   "Fills self with numbers whose logarithm is drawn from a normal distribution.")
fill("exponential_(Tensor self, float lambd=1, " .. given .. ")",
   "Fills self with numbers drawn from the exponential distribution of rate lambd.")
fill("cauchy_(Tensor self, float median=0, float sigma=1, " .. given .. ")",
   "Fills self with numbers drawn from a Cauchy distribution.")
fill("geometric_(Tensor self, float p, " .. given .. ")",
   [[Fills self with the number of trials up to and including the first success, each trial having
   probability p.]], "T(3), 0.5")
fill("bernoulli_(Tensor self, float p=0.5, " .. given .. ")",
   "Fills self with 1 where a trial of probability p succeeds, else 0.")
fill("bernoulli_.each(Tensor self, Tensor p, " .. given .. ")",
   "The same with a probability for each element.", "T(3), U(3):abs()")
fill("random_(Tensor self, int from=nil, int to=nil, " .. given .. ")",
   [[Fills self with integers drawn uniformly from `from` to `to` - 1. One number is `to`; without
    any they reach from 0 to the dtype's largest integer, of floating dtypes to the largest below
    which all are exact.]])

-- From given probabilities ------------------------------------------------------------------------

op {"bernoulli(Tensor self, " .. given .. ") -> Tensor",
    doc = "Draws 1 with the probability that self holds, else 0, in self's dtype.",
    grad = {self = "zeros_like(grad)"}, gradcheck = false, nondiff = "random numbers",
    examples = {"U(3):abs()"}}
example("bernoulli", [[
   torch.manual_seed(0)
   print(torch.bernoulli(torch.tensor {0.0, 1.0}))
   --> tensor([0., 1.])]])
op {"bernoulli.p(Tensor self, float p, " .. given .. ") -> Tensor",
    doc = [[Draws 1 with probability p, else 0, in self's shape and dtype. self's elements, even
    NaN, do not matter.]],
    grad = {self = "zeros_like(grad)"}, gradcheck = false, nondiff = "random numbers",
    examples = {"T(3), 0.5"}}

takes_complex "rand randn rand_like randn_like uniform_ normal_"
