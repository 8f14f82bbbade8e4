-- biquads.lua - second-order filters with the coefficients of SoX and of the Audio EQ Cookbook.
-- Frequencies, quality factors and gains may also be tensors with one element; gradients then flow
-- to them.

local torch = require "tlua"
local args = require "tlua.args"
local checks = require "tlua.audio.checks"
local filters = require "tlua.audio.functional.filters"

local M = {}

local prefix <const> = "audio.functional."

-- Raises an error if a tensor argument does not have exactly one element.
local function check_numbers(title, a)
   for key, value in pairs(a) do
      if key ~= "waveform" and torch.is_tensor(value) and value:numel() ~= 1 then
         args.refuse(title, key, "a number or a tensor with one", value)
      end
   end
end

-- Returns a number as a tensor of the waveform's dtype and device.
local function as_scalar(x, value)
   return (torch.is_tensor(value) and value:to(x.device):to(x.dtype) or checks.like(x, value))
      :reshape(1)
end

local function run(x, b0, b1, b2, a0, a1, a2)
   local function join(...)
      local list = {}
      for i, value in ipairs {...} do list[i] = as_scalar(x, value) end
      return torch.cat(list)
   end
   return filters.lfilter(x, join(a0, a1, a2), join(b0, b1, b2))
end

local take_biquad = args.signature(prefix .. [[biquad(waveform: tensor, b0: number|tensor,
   b1: number|tensor, b2: number|tensor, a0: number|tensor, a1: number|tensor,
   a2: number|tensor)]])

--- Applies a second-order filter, and clamps the result to -1 to 1.
---@param waveform Tensor
---@param b0 number|Tensor
---@param b1 number|Tensor
---@param b2 number|Tensor
---@param a0 number|Tensor
---@param a1 number|Tensor
---@param a2 number|Tensor
---@return Tensor
function M.biquad(...)
   local a = take_biquad(...)
   checks.waveform(prefix .. "biquad", a.waveform)
   check_numbers(prefix .. "biquad", a)
   return run(a.waveform, a.b0, a.b1, a.b2, a.a0, a.a1, a.a2)
end

-- Defines a filter that has a frequency parameter. design(values) returns the coefficients b0, b1,
-- b2, a0, a1 and a2. `values` has the function's arguments as tensors with one element, the
-- frequency w0 in radians per sample, and alpha = sin(w0) / 2 / Q.
local function define(name, parameters, frequency, design)
   local title = prefix .. name
   local take = args.signature(("%s(waveform: tensor, sample_rate: number, %s)"):format(title,
      parameters))
   M[name] = function(...)
      local a = take(...)
      checks.waveform(title, a.waveform)
      checks.positive(title, "sample_rate", a.sample_rate)
      check_numbers(title, a)
      local x, values = a.waveform, {}
      for key, value in pairs(a) do
         if key ~= "waveform" and key ~= "sample_rate" and type(value) ~= "boolean" then
            values[key] = as_scalar(x, value)
         else
            values[key] = value
         end
      end
      for _, key in ipairs {frequency, "Q"} do
         if type(a[key]) == "number" then checks.positive(title, key, a[key]) end
      end
      -- with a higher frequency the filter is unstable, and its output becomes NaN
      if type(a[frequency]) == "number" and a[frequency] > a.sample_rate / 2 then
         args.refuse(title, frequency, ("at most half of sample_rate, %g"):format(
            a.sample_rate / 2), a[frequency])
      end
      values.w0 = values[frequency] * (2 * math.pi / a.sample_rate)
      values.sin, values.cos = values.w0:sin(), values.w0:cos()
      values.alpha = values.sin / 2 / values.Q
      return run(x, design(values))
   end
end

--- Changes the phases around a frequency (`allpass_biquad`), or removes the band around a frequency
--- (`bandreject_biquad`).
---@names audio.functional.allpass_biquad audio.functional.bandreject_biquad
---@param waveform Tensor
---@param sample_rate number
---@param central_freq number|Tensor
---@param Q? number|Tensor  0.707 by default
---@return Tensor

define("allpass_biquad", [[central_freq: number|tensor,
   Q: number|tensor = 0.707]], "central_freq", function(v)
   return 1 - v.alpha, v.cos * -2, 1 + v.alpha, 1 + v.alpha, v.cos * -2, 1 - v.alpha
end)

define("bandreject_biquad", [[central_freq: number|tensor,
   Q: number|tensor = 0.707]], "central_freq", function(v)
   return 1.0, v.cos * -2, 1.0, 1 + v.alpha, v.cos * -2, 1 - v.alpha
end)

--- Keeps the frequencies above (`highpass_biquad`) or below (`lowpass_biquad`) a cutoff frequency.
---
---     local x = torch.sin(torch.arange(400) * 1.5) + 0.2
---     local y = torch.audio.functional.highpass_biquad(x / 2, 8000, 500)
---     print(math.abs(y:narrow(1, 201, 200):mean():item()) < 0.01)
---     --> true
---@names audio.functional.highpass_biquad audio.functional.lowpass_biquad
---@param waveform Tensor
---@param sample_rate number
---@param cutoff_freq number|Tensor
---@param Q? number|Tensor  0.707 by default
---@return Tensor

define("highpass_biquad", [[cutoff_freq: number|tensor,
   Q: number|tensor = 0.707]], "cutoff_freq", function(v)
   local b0 = (1 + v.cos) / 2
   return b0, -1 - v.cos, b0, 1 + v.alpha, v.cos * -2, 1 - v.alpha
end)

define("lowpass_biquad", [[cutoff_freq: number|tensor,
   Q: number|tensor = 0.707]], "cutoff_freq", function(v)
   local b0 = (1 - v.cos) / 2
   return b0, 1 - v.cos, b0, 1 + v.alpha, v.cos * -2, 1 - v.alpha
end)

--- Keeps a band around a frequency.
---@names audio.functional.bandpass_biquad
---@param waveform Tensor
---@param sample_rate number
---@param central_freq number|Tensor
---@param Q? number|Tensor  0.707 by default
---@param const_skirt_gain? boolean  whether the highest gain is Q instead of 1
---@return Tensor

define("bandpass_biquad", [[central_freq: number|tensor, Q: number|tensor = 0.707,
   const_skirt_gain: boolean = false]], "central_freq", function(v)
   local top = v.const_skirt_gain and v.sin / 2 or v.alpha
   return top, 0.0, -top, 1 + v.alpha, v.cos * -2, 1 - v.alpha
end)

--- Keeps a band around a frequency with SoX's band filter. `noise` selects the filter's variant for
--- sounds without a pitch.
---@names audio.functional.band_biquad
---@param waveform Tensor
---@param sample_rate number
---@param central_freq number|Tensor
---@param Q? number|Tensor  0.707 by default
---@param noise? boolean  whether the sound has no pitch
---@return Tensor

define("band_biquad", [[central_freq: number|tensor, Q: number|tensor = 0.707,
   noise: boolean = false]],
   "central_freq", function(v)
      local width = v.w0 / v.Q
      local a2 = (-width):exp()
      local a1 = a2 * -4 / (1 + a2) * v.cos
      local b0 = (1 - a1 * a1 / (a2 * 4)):sqrt() * (1 - a2)
      if v.noise then
         b0 = (((1 + a2) * (1 + a2) - a1 * a1) * (1 - a2) / (1 + a2)):sqrt() / b0 * b0
      end
      return b0, 0.0, 0.0, 1.0, a1, a2
   end)

-- Returns the coefficients of a shelf filter, which changes the gain on one side of a frequency.
-- `sign` is 1 for bass and -1 for treble.
local function shelf(v, sign)
   local A = (v.gain * (math.log(10) / 40)):exp()
   local slope = A:sqrt() * v.alpha * 2
   local low, high = (A - 1) * v.cos * sign, (A + 1) * v.cos * sign
   local b0, b1 = A * ((A + 1) - low + slope), A * ((A - 1) - high) * (2 * sign)
   local b2 = A * ((A + 1) - low - slope)
   local a0, a1 = (A + 1) + low + slope, ((A - 1) + high) * (-2 * sign)
   local a2 = (A + 1) + low - slope
   return b0 / a0, b1 / a0, b2 / a0, 1.0, a1 / a0, a2 / a0
end

--- Raises or lowers the gain of low frequencies (a low-shelf filter).
---@names audio.functional.bass_biquad
---@param waveform Tensor
---@param sample_rate number
---@param gain number|Tensor
---@param central_freq? number|Tensor  100 by default
---@param Q? number|Tensor  0.707 by default
---@return Tensor

define("bass_biquad", [[gain: number|tensor, central_freq: number|tensor = 100,
   Q: number|tensor = 0.707]],
   "central_freq", function(v) return shelf(v, 1) end)

--- Raises or lowers the gain of high frequencies (a high-shelf filter).
---@names audio.functional.treble_biquad
---@param waveform Tensor
---@param sample_rate number
---@param gain number|Tensor
---@param central_freq? number|Tensor  3000 by default
---@param Q? number|Tensor  0.707 by default
---@return Tensor

define("treble_biquad", [[gain: number|tensor, central_freq: number|tensor = 3000,
   Q: number|tensor = 0.707]],
   "central_freq", function(v) return shelf(v, -1) end)

--- Raises or lowers the gain of a band around a frequency.
---@names audio.functional.equalizer_biquad
---@param waveform Tensor
---@param sample_rate number
---@param center_freq number|Tensor
---@param gain number|Tensor
---@param Q? number|Tensor  0.707 by default
---@return Tensor

define("equalizer_biquad", [[center_freq: number|tensor, gain: number|tensor,
   Q: number|tensor = 0.707]], "center_freq",
   function(v)
      local A = (v.gain * (math.log(10) / 40)):exp()
      return 1 + v.alpha * A, v.cos * -2, 1 - v.alpha * A, 1 + v.alpha / A, v.cos * -2,
         1 - v.alpha / A
   end)

-- Filters of records ------------------------------------------------------------------------------

local deemph <const> = {
   [44100] = {freq = 5283, slope = 0.4845, gain = -9.477},
   [48000] = {freq = 5356, slope = 0.479, gain = -9.62},
}

local take_deemph = args.signature(prefix
   .. "deemph_biquad(waveform: tensor, sample_rate: integer)")

--- Removes the pre-emphasis of high frequencies with which some compact discs (44100 Hz) and
--- digital audio tapes (48000 Hz) are recorded (ISO 908).
---@param waveform Tensor
---@param sample_rate integer
---@return Tensor
function M.deemph_biquad(...)
   local title, a = prefix .. "deemph_biquad", take_deemph(...)
   checks.waveform(title, a.waveform)
   local row = deemph[a.sample_rate]
   if not row then args.refuse(title, "sample_rate", "44100 or 48000", a.sample_rate) end
   local w0 = 2 * math.pi * row.freq / a.sample_rate
   local A = math.exp(row.gain / 40 * math.log(10))
   local alpha = math.sin(w0) / 2 * math.sqrt((A + 1 / A) * (1 / row.slope - 1) + 2)
   local slope, low, high = 2 * math.sqrt(A) * alpha, (A - 1) * math.cos(w0), (A + 1) * math.cos(w0)
   return run(a.waveform, A * ((A + 1) + low + slope), -2 * A * ((A - 1) + high),
      A * ((A + 1) + low - slope), (A + 1) - low + slope, 2 * ((A - 1) - high),
      (A + 1) - low - slope)
end

local riaa <const> = {
   [44100] = {-0.2014898, 0.9233820, 0.7083149, 0.9924091},
   [48000] = {-0.1766069, 0.9321590, 0.7396325, 0.9931330},
   [88200] = {-0.1168735, 0.9648312, 0.8590646, 0.9964002},
   [96000] = {-0.1141486, 0.9676817, 0.8699137, 0.9966946},
}

local take_riaa = args.signature(prefix .. "riaa_biquad(waveform: tensor, sample_rate: integer)")

--- Applies the RIAA equalisation of vinyl records, with gain 1 at 1000 Hz.
---@param waveform Tensor
---@param sample_rate integer  44100, 48000, 88200 or 96000
---@return Tensor
function M.riaa_biquad(...)
   local title, a = prefix .. "riaa_biquad", take_riaa(...)
   checks.waveform(title, a.waveform)
   local row = riaa[a.sample_rate]
   if not row then
      args.refuse(title, "sample_rate", "44100, 48000, 88200 or 96000", a.sample_rate)
   end
   local z1, z2, p1, p2 = table.unpack(row)
   local b1, b2, a1, a2 = -(z1 + z2), z1 * z2, -(p1 + p2), p1 * p2
   local y = 2 * math.pi * 1000 / a.sample_rate
   local function gain(c1, c2)
      return math.sqrt((1 + c1 * math.cos(y) + c2 * math.cos(2 * y)) ^ 2
         + (c1 * math.sin(y) + c2 * math.sin(2 * y)) ^ 2)
   end
   local g = gain(a1, a2) / gain(b1, b2)
   return run(a.waveform, g, b1 * g, b2 * g, 1.0, a1, a2)
end

return M
