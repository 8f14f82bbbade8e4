-- random.lua - Torch7's random functions. The functions return numbers, and the methods fill
-- tensors with random numbers.

local torch = require "tlua"
local types = require "tlua.torch7.types"
local classes = require "tlua.torch7.classes"

local methods, field = types.methods, types.field

local M = {}

local Generator = classes.newmetatable("torch.Generator", nil, function()
   local made = torch.Generator()
   made:manual_seed(torch.initial_seed())
   return setmetatable({generator = made}, classes.getmetatable "torch.Generator")
end)
M.Generator = classes.getconstructortable "torch.Generator"

-- If the first argument is a generator, returns tlua's generator and the other arguments. Otherwise
-- returns nil and all arguments.
local function split(first, ...)
   if type(first) == "table" and getmetatable(first) == Generator then
      return first.generator, ...
   end
   return nil, first, ...
end

local function check_number(name, value)
   if type(value) ~= "number" then
      torch.raise(("torch.%s: expected a number, got %s"):format(name, type(value)))
   end
   return value
end

-- Fills a tensor with random numbers by calling tlua's in-place method `method`.
local function fill(x, method, generator, ...)
   local args = {...}
   if generator then args[#args + 1] = {generator = generator} end
   methods[method](x, table.unpack(args))
   return x
end

local double = {dtype = "float64"}

-- Declares a function that returns a random number, and a method that fills a tensor with random
-- numbers of the same distribution. `prepare` checks the arguments and fills in their defaults.
local function distribution(name, method, prepare)
   M[name] = function(...)
      local function sample(generator, first, ...)
         if types.is_tensor(first) then return fill(first, method, generator, prepare(...)) end
         return methods.item(fill(torch.empty(1, double), method, generator, prepare(first, ...)))
      end
      return sample(split(...))
   end
   types.Tensor[name] = function(x, ...)
      local function sample(generator, ...)
         if torch.is_floating_point(x) then return fill(x, method, generator, prepare(...)) end
         local filled = fill(torch.empty(field(x, "shape"), double), method, generator,
            prepare(...))
         methods.copy_(x, filled)
         return x
      end
      return sample(split(...))
   end
end

distribution("uniform", "uniform_", function(a, b)
   return check_number("uniform", a or 0), check_number("uniform", b or 1)
end)
distribution("normal", "normal_", function(mean, std)
   return check_number("normal", mean or 0), check_number("normal", std or 1)
end)
distribution("exponential", "exponential_", function(rate) return rate or 1 end)
distribution("cauchy", "cauchy_", function(median, sigma) return median or 0, sigma or 1 end)
distribution("geometric", "geometric_", function(p) return check_number("geometric", p) end)
distribution("logNormal", "log_normal_", function(mean, std) return mean or 1, std or 2 end)

local function bernoulli(x, generator, p)
   if types.is_tensor(p) then
      methods.copy_(x, torch.bernoulli(methods.to(p, "float64")))
      return x
   end
   return fill(x, "bernoulli_", generator, p or 0.5)
end
function M.bernoulli(...)
   local generator, p = split(...)
   return math.tointeger(methods.item(bernoulli(torch.empty(1, double), generator, p)))
end
function types.Tensor:bernoulli(...) return bernoulli(self, split(...)) end

local largest = {float64 = 2 ^ 53, float32 = 2 ^ 24, float16 = 2 ^ 11, uint8 = 255, int8 = 127,
   int16 = 32767, int32 = 2147483647, int64 = 2 ^ 53}

-- Fills x with random integers from a to b. If b is missing, they are from 1 to a, and if both are
-- missing, from 1 to the largest value of the dtype.
local function integers(x, generator, a, b)
   if a == nil then a, b = 1, largest[field(x, "dtype")] elseif b == nil then a, b = 1, a end
   a, b = math.tointeger(a), math.tointeger(b)
   if not (a and b) or a > b then
      torch.raise "torch.random: expected integers a and b with a <= b"
   end
   return fill(x, "random_", generator, a, b + 1)
end
function M.random(...)
   local generator, a, b = split(...)
   if a == nil then a, b = 1, 2 ^ 32 - 1 end
   return methods.item(integers(torch.empty(1, {dtype = "int64"}), generator, a, b))
end
function types.Tensor:random(...) return integers(self, split(...)) end

-- Seeds ------------------------------------------------------------------------------------------

local function whole(name, seed)
   local n = math.tointeger(seed) or type(seed) == "number" and math.floor(seed) or nil
   if not n then torch.raise(("torch.%s: expected a number, got %s"):format(name, type(seed))) end
   return n
end

function M.manualSeed(...)
   local generator, seed = split(...)
   seed = whole("manualSeed", seed)
   if generator then generator:manual_seed(seed) else torch.manual_seed(seed) end
end

function M.seed(...)
   local generator = split(...)
   if generator then return generator:seed() end
   return torch.seed()
end

function M.initialSeed(...)
   local generator = split(...)
   if generator then return generator:initial_seed() end
   return torch.initial_seed()
end

-- Returns the state of a generator. In Torch7, the state consists of bytes; in tlua it is a list of
-- integers.
function M.getRNGState(...)
   local generator = split(...)
   local state = generator and generator:get_state() or torch.get_rng_state()
   return types.tag(torch.io.bytes(("<" .. ("i8"):rep(#state)):pack(table.unpack(state))))
end

function M.setRNGState(...)
   local generator, bytes = split(...)
   local n = types.is_tensor(bytes) and methods.numel(bytes) or 0
   if n == 0 or n % 8 ~= 0 or field(bytes, "dtype") ~= "uint8" then
      torch.raise "torch.setRNGState: expected a ByteTensor, as given by torch.getRNGState"
   end
   local state = methods.tolist(torch.frombuffer(torch.io.text(methods.contiguous(bytes), 1, n),
      {dtype = "int64"}))
   if generator then generator:set_state(state) else torch.set_rng_state(state) end
end

return M
