-- windows.lua - torch.signal.windows: window functions. A signal is multiplied by a window before
-- its Fourier transform, so that the jump between the signal's end and its beginning does not show
-- in the transform. Windows are computed in float64.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

local options <const> = [[, sym: boolean = true, dtype: string?, device: device?,
   requires_grad: boolean = false)]]

local function take(name, own)
   return args.signature(("signal.windows.%s(M: count%s%s"):format(name, own or "", options))
end

-- Returns the window that fn(positions, period) computes, in the dtype that the options request.
-- `positions` is the float64 vector of 0 to M - 1. `period` is the period of the window: M - 1 for
-- a symmetric window, otherwise M.
local function window(name, a, fn)
   local like = torch.empty({0}, {dtype = a.dtype, device = a.device})
   if not like:is_floating_point() then
      args.refuse("signal.windows." .. name, "dtype", "a floating type", like.dtype)
   end
   local x = torch.arange(a.M, {dtype = "float64", device = like.device})
   local out = fn(x, a.sym and a.M - 1 or a.M):to(like.dtype)
   return a.requires_grad and out:requires_grad_() or out
end

local function cosines(name, a, factors)
   return window(name, a, function(x, length)
      if a.M == 1 then return torch.ones_like(x) end
      local sum, step = torch.full_like(x, factors[1] or 0), 2 * math.pi / length
      for i = 2, #factors do
         sum = sum + (x * (step * (i - 1))):cos() * (i % 2 == 0 and -factors[i] or factors[i])
      end
      return sum
   end)
end

local take_cosines = take("general_cosine", ", a: numbers")

--- Returns a sum of cosines, a[1] - a[2] cos(x) + a[3] cos(2 x) - ..., for x from 0 to 2 pi.
---@param M integer  the number of elements
---@param a number[]  the factors, at least one
---@param options? {sym?: boolean, dtype?: string, device?: string, requires_grad?: boolean}
---@return Tensor
function M.general_cosine(...)
   local a = take_cosines(...)
   if #a.a == 0 then
      args.refuse("signal.windows.general_cosine", "a", "at least one number", a.a)
   end
   return cosines("general_cosine", a, a.a)
end

local take_hamming = take("general_hamming", ", alpha: number = 0.54")

--- Returns a Hamming window with any coefficient: alpha - (1 - alpha) cos(x), for x from 0 to 2 pi.
---@param M integer  the number of elements
---@param alpha? number  0.54 unless given
---@param options? {sym?: boolean, dtype?: string, device?: string, requires_grad?: boolean}
---@return Tensor
function M.general_hamming(...)
   local a = take_hamming(...)
   return cosines("general_hamming", a, {a.alpha, 1 - a.alpha})
end

--- Returns the Hann, Hamming, Blackman or Nuttall window. Hann's and Hamming's have two terms of
--- general_cosine, Blackman's has three, and Nuttall's has four.
---@param M integer  the number of elements
---@param options? {sym?: boolean, dtype?: string, device?: string, requires_grad?: boolean}
---@return Tensor
---@names signal.windows.hann signal.windows.hamming signal.windows.blackman signal.windows.nuttall
for name, factors in pairs {
   hann = {0.5, 0.5}, hamming = {0.54, 0.46}, blackman = {0.42, 0.5, 0.08},
   nuttall = {0.3635819, 0.4891775, 0.1365995, 0.0106411},
} do
   local take_it = take(name)
   M[name] = function(...) return cosines(name, take_it(...), factors) end
end

local take_bartlett = take "bartlett"

--- Returns the Bartlett window, a triangle that begins with 0.
---@param M integer  the number of elements
---@param options? {sym?: boolean, dtype?: string, device?: string, requires_grad?: boolean}
---@return Tensor
function M.bartlett(...)
   local a = take_bartlett(...)
   return window("bartlett", a, function(x, length)
      return a.M == 1 and torch.ones_like(x) or 1 - (x * (2 / length) - 1):abs()
   end)
end

-- Returns the size of the symmetric window from which the requested window is cut. With sym =
-- false, the requested window is a symmetric window of one more element, without its last element.
local function span(a) return not a.sym and a.M > 1 and a.M + 1 or a.M end

local take_cosine = take "cosine"

--- Returns the cosine window: half a period of the sine.
---@param M integer  the number of elements
---@param options? {sym?: boolean, dtype?: string, device?: string, requires_grad?: boolean}
---@return Tensor
function M.cosine(...)
   local a = take_cosine(...)
   return window("cosine", a, function(x) return ((x + 0.5) * (math.pi / span(a))):sin() end)
end

local take_exponential = take("exponential", ", center: number?, tau: number = 1.0")

--- Returns the exponential window, exp(-|i - center| / tau) for element i, counted from 0.
---@param M integer  the number of elements
---@param center? number  the middle unless given; a given center requires sym = false
---@param tau? number  a number above 0, 1 unless given
---@param options? {sym?: boolean, dtype?: string, device?: string, requires_grad?: boolean}
---@return Tensor
function M.exponential(...)
   local a = take_exponential(...)
   local who = "signal.windows.exponential"
   if a.tau <= 0 or a.tau ~= a.tau then args.refuse(who, "tau", "more than 0", a.tau) end
   if a.sym and a.center then args.refuse(who, "center", "none if sym is true", a.center) end
   local center = a.center or (span(a) - 1) / 2
   return window("exponential", a, function(x) return (-(x - center):abs() / a.tau):exp() end)
end

local take_gaussian = take("gaussian", ", std: number = 1.0")

--- Returns the Gaussian window, exp(-(i - middle)^2 / (2 std^2)) for element i.
---@param M integer  the number of elements
---@param std? number  the standard deviation, of more than 0, in elements; 1 unless given
---@param options? {sym?: boolean, dtype?: string, device?: string, requires_grad?: boolean}
---@return Tensor
function M.gaussian(...)
   local a = take_gaussian(...)
   if a.std <= 0 or a.std ~= a.std then
      args.refuse("signal.windows.gaussian", "std", "more than 0", a.std)
   end
   local middle, factor = (span(a) - 1) / 2, 1 / (a.std * math.sqrt(2))
   return window("gaussian", a, function(x) return (-((x - middle) * factor):square()):exp() end)
end

local take_kaiser = take("kaiser", ", beta: number = 12.0")

--- Returns the Kaiser window, i0(beta sqrt(1 - t^2)) / i0(beta), for t from -1 to 1.
---@param M integer  the number of elements
---@param beta? number  a number of at least 0, 12 unless given: a larger one makes a narrower
--- window
---@param options? {sym?: boolean, dtype?: string, device?: string, requires_grad?: boolean}
---@return Tensor
function M.kaiser(...)
   local a = take_kaiser(...)
   if a.beta < 0 or a.beta ~= a.beta then
      args.refuse("signal.windows.kaiser", "beta", "at least 0", a.beta)
   end
   return window("kaiser", a, function(x, length)
      if a.M <= 1 then return torch.ones_like(x) end
      local t = (x * (2 / length) - 1):clamp(-1, 1)
      local largest = torch.full_like(x, a.beta):i0()
      return ((1 - t:square()):sqrt() * a.beta):i0() / largest
   end)
end

return M
