-- filters.lua - linear filters that are defined by coefficients.

local torch = require "tlua"
local args = require "tlua.args"
local checks = require "tlua.audio.checks"
local recursion = require "tlua.audio.functional.recursion"

local F = torch.nn.functional

local M = {}

local prefix <const> = "audio.functional."

local function check_coefficients(title, a, b)
   for name, value in pairs {a_coeffs = a, b_coeffs = b} do
      checks.real(title, name, value, 1, "(order + 1) or (filters, order + 1)")
   end
   if a:dim() > 2 or a:size(-1) == 0 then
      args.refuse(title, "a_coeffs", "a tensor of shape (order + 1) or (filters, order + 1)", a)
   end
   local same = a:dim() == b:dim()
   for i = 1, a:dim() do same = same and a:size(i) == b:size(i) end
   if not same then
      args.refuse(title, "b_coeffs", ("the shape of a_coeffs, (%s)"):format(
         table.concat(a.shape, ", ")), b)
   end
   if a:select(-1, 1):eq(0):any():item() then
      args.refuse(title, "a_coeffs", "a first coefficient other than 0", a)
   end
end

-- Returns the weighted sums of each input and the K inputs before it. x is (batch, filters, time),
-- and the weights b are (filters, K + 1).
local function feed_forward(x, b)
   local y = x * b:narrow(2, 1, 1)
   local length = x:size(-1)
   for k = 1, math.min(b:size(2), length) - 1 do
      local before = x:narrow(-1, 1, length - k) * b:narrow(2, k + 1, 1)
      y = y + F.pad(before, {k, 0})
   end
   return y
end

local function filter(x, a, b)
   local first = a:narrow(2, 1, 1)
   return recursion.run(feed_forward(x, b / first), a / first)
end

-- Filters a waveform with the coefficients a, of earlier outputs, and b, of inputs. The caller has
-- checked the coefficients.
local function apply(title, waveform, a, b, clamp, batching)
   a, b = checks.like(waveform, a), checks.like(waveform, b)
   local x, filters = waveform, 1
   if a:dim() == 2 then
      filters = a:size(1)
      if not batching then
         x = torch.stack({x}, -2)
         local shape = {table.unpack(x.shape)}
         shape[#shape - 1] = filters
         x = x:expand(shape)
      elseif x:dim() < 2 or x:size(-2) ~= filters then
         args.refuse(title, "waveform", ("a row for each of %d filters, (..., %d, time)"):format(
            filters, filters), waveform)
      end
   else
      a, b = a:unsqueeze(1), b:unsqueeze(1)
   end
   local y = filter(x:reshape(-1, filters, x:size(-1)), a, b)
   if clamp then y = y:clamp(-1, 1) end
   return y:reshape(x.shape)
end

local take_lfilter = args.signature(prefix .. [[lfilter(waveform: tensor, a_coeffs: tensor,
   b_coeffs: tensor, clamp: boolean = true, batching: boolean = true)]])

--- Applies a linear filter: a[0] y[n] + a[1] y[n - 1] + ... = b[0] x[n] + b[1] x[n - 1] + ...
--- Samples are filtered in blocks, by matrix products in float64.
---
---     local lfilter = torch.audio.functional.lfilter
---     local a, b = torch.tensor {1, -0.5}, torch.tensor {0.5, 0}
---     print(lfilter(torch.tensor {1.0, 0, 0, 0}, a, b))
---     --> tensor([0.5000, 0.2500, 0.1250, 0.0625])
---@param waveform Tensor  (..., time), or (..., filters, time) if there are several filters and
--- `batching` is true
---@param a_coeffs Tensor
---@param b_coeffs Tensor
---@param clamp? boolean
---@param batching? boolean
---@return Tensor  the waveform's shape; without `batching` (..., filters, time)
function M.lfilter(...)
   local title, a = prefix .. "lfilter", take_lfilter(...)
   checks.waveform(title, a.waveform)
   check_coefficients(title, a.a_coeffs, a.b_coeffs)
   return apply(title, a.waveform, a.a_coeffs, a.b_coeffs, a.clamp, a.batching)
end

local take_filtfilt = args.signature(prefix .. [[filtfilt(waveform: tensor, a_coeffs: tensor,
   b_coeffs: tensor, clamp: boolean = true)]])

--- Applies a filter forwards and then backwards in time, so that the phases stay unchanged.
---@param waveform Tensor
---@param a_coeffs Tensor
---@param b_coeffs Tensor
---@param clamp? boolean
---@return Tensor
function M.filtfilt(...)
   local title, a = prefix .. "filtfilt", take_filtfilt(...)
   checks.waveform(title, a.waveform)
   check_coefficients(title, a.a_coeffs, a.b_coeffs)
   local forward = apply(title, a.waveform, a.a_coeffs, a.b_coeffs, false, true)
   return apply(title, forward:flip(-1), a.a_coeffs, a.b_coeffs, a.clamp, true):flip(-1)
end

local take_pre = args.signature(prefix .. "preemphasis(waveform: tensor, coeff: number = 0.97)")

--- Returns x[n] - coeff x[n - 1].
---@param waveform Tensor
---@param coeff? number  0.97 by default
---@return Tensor
function M.preemphasis(...)
   local title, a = prefix .. "preemphasis", take_pre(...)
   checks.waveform(title, a.waveform)
   local x = a.waveform
   local n = x:size(-1)
   if n == 1 then return x:clone() end
   local rest = torch.sub(x:narrow(-1, 2, n - 1), x:narrow(-1, 1, n - 1), {alpha = a.coeff})
   return torch.cat({x:narrow(-1, 1, 1), rest}, -1)
end

local take_de = args.signature(prefix .. "deemphasis(waveform: tensor, coeff: number = 0.97)")

--- Returns y[n] = x[n] + coeff y[n - 1], which undoes `preemphasis`. The result is clamped to -1 to
--- 1.
---@param waveform Tensor
---@param coeff? number  0.97 by default
---@return Tensor
function M.deemphasis(...)
   local title, a = prefix .. "deemphasis", take_de(...)
   checks.waveform(title, a.waveform)
   local x = a.waveform
   return apply(title, x, checks.like(x, {1.0, -a.coeff}), checks.like(x, {1.0, 0.0}), true, true)
end

return M
