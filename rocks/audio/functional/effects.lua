-- effects.lua - effects of SoX. In an effect with feedback, a sample of the output depends on
-- earlier samples of the output. The output is then computed in blocks that are as long as the
-- shortest delay, so that a block depends only on earlier blocks.

local torch = require "tlua"
local args = require "tlua.args"
local checks = require "tlua.audio.checks"
local recursion = require "tlua.audio.functional.recursion"

local F = torch.nn.functional

local M = {}

local prefix <const> = "audio.functional."

local take_contrast = args.signature(prefix .. [[contrast(waveform: tensor,
   enhancement_amount: number = 75)]])

--- Makes a sound seem louder, much as dynamic compression does.
---@param waveform Tensor
---@param enhancement_amount? number  from 0 to 100, 75 by default
---@return Tensor
function M.contrast(...)
   local title, a = prefix .. "contrast", take_contrast(...)
   checks.waveform(title, a.waveform)
   local amount = a.enhancement_amount
   if not (amount >= 0 and amount <= 100) then
      args.refuse(title, "enhancement_amount", "a number from 0 to 100", amount)
   end
   local angle = a.waveform * (math.pi / 2)
   return torch.sin(angle + torch.sin(angle * 4) * (amount / 750))
end

local take_shift = args.signature(prefix .. [[dcshift(waveform: tensor, shift: number,
   limiter_gain: number?)]])

--- Adds a constant to waveforms.
---@param waveform Tensor
---@param shift number  from -2 to 2
---@param limiter_gain? number
---@return Tensor
function M.dcshift(...)
   local title, a = prefix .. "dcshift", take_shift(...)
   checks.waveform(title, a.waveform)
   local x, shift, gain = a.waveform, a.shift, a.limiter_gain
   local plain = (x + shift):clamp(-1, 1)
   if not gain or shift == 0 then return plain end
   local limit = 1 - (math.abs(shift) - gain)
   if shift > 0 then
      local soft = ((x - limit) * (gain / (1 - limit)) + (limit + shift)):clamp(-math.huge, limit)
      return torch.where(x:gt(limit), soft, plain)
   end
   local soft = ((x + limit) * (gain / (1 - limit)) + (shift - limit)):clamp(-limit)
   return torch.where(x:lt(-limit), soft, plain)
end

local densities <const> = {TPDF = true, RPDF = true, GPDF = true}

local take_dither = args.signature(prefix .. [[dither(waveform: tensor,
   density_function: string = 'TPDF', noise_shaping: boolean = false)]])

--- Adds dither and rounds samples to 16 bits. "TPDF" adds a triangle that spans the whole waveform,
--- as torchaudio does. "RPDF" and "GPDF" add the same number to all samples: "RPDF" a randomly
--- chosen sample of the waveform, and "GPDF" the sum of seven randomly chosen samples.
---@param waveform Tensor
---@param density_function? string
---@param noise_shaping? boolean  whether a sample's rounding error is added to the next
---@return Tensor
function M.dither(...)
   local title, a = prefix .. "dither", take_dither(...)
   checks.waveform(title, a.waveform)
   checks.among(title, "density_function", a.density_function, densities)
   local x = a.waveform
   local n = x:size(-1)
   local signal = x * (2 ^ 15 - 2)
   local function sample() return x:reshape(-1)[torch.randint(1, x:numel() + 1, {1}):item()] end
   if a.density_function == "TPDF" then
      signal = signal + torch.bartlett_window(n, {dtype = x.dtype, device = x.device})
   elseif a.density_function == "RPDF" then
      signal = signal + (sample() - 0.5)
   else
      local sum = sample()
      for _ = 1, 6 do sum = sum + sample() end
      signal = signal + sum
   end
   local rounded = signal:round() / 2 ^ 15
   if not a.noise_shaping then return rounded end
   local errors = rounded - x
   return rounded + F.pad(errors:narrow(-1, 1, n - 1), {1, 0})
end

local take_gain = args.signature(prefix .. "gain(waveform: tensor, gain_db: number = 1)")

--- Multiplies waveforms by a gain in dB.
---@param waveform Tensor
---@param gain_db? number  1 by default
---@return Tensor
function M.gain(...)
   local a = take_gain(...)
   if a.gain_db == 0 then return a.waveform end
   return a.waveform * 10 ^ (a.gain_db / 20)
end

local take_overdrive = args.signature(prefix .. [[overdrive(waveform: tensor, gain: number = 20,
   colour: number = 20)]])

--- Distorts waveforms as an overdriven amplifier does.
---@param waveform Tensor
---@param gain? number
---@param colour? number  the share of even harmonics, from 0 to 100
---@return Tensor
function M.overdrive(...)
   local title, a = prefix .. "overdrive", take_overdrive(...)
   checks.waveform(title, a.waveform)
   local x, restore = checks.batch(a.waveform, 1)
   local loud = x * math.exp(a.gain * math.log(10) / 20) + a.colour / 200
   local bent = torch.where(loud:lt(-1), -2 / 3, torch.where(loud:gt(1), 2 / 3,
      loud - loud:pow(3) / 3))
   -- This filter removes the mean: y[n] = bent[n] - bent[n - 1] + 0.995 y[n - 1].
   local n = x:size(-1)
   local steps = bent - F.pad(bent:narrow(-1, 1, n - 1), {1, 0})
   local y = recursion.run(steps:unsqueeze(2), checks.like(x, {{1.0, -0.995}})):squeeze(2)
   return restore((x * 0.5 + y * 0.75):clamp(-1, 1))
end

-- Delays ------------------------------------------------------------------------------------------

local TURN <const> = 2 * math.pi

-- Returns one period of a wave that oscillates between `low` and `high`, as a list of n values. The
-- wave is a sine or a triangle that begins at the angle `phase`. If is_whole is true, the values
-- are rounded to integers.
local function wave_of(is_sine, is_whole, n, low, high, phase)
   local offset = math.floor(phase / TURN * n + 0.5)
   local list = {}
   for t = 0, n - 1 do
      local point = (t + offset) % n
      local d
      if is_sine then
         d = (math.sin(point / n * TURN) + 1) / 2
      else
         d = point * 2 / n
         local quarter = 4 * point // n
         if quarter == 0 then
            d = d + 0.5
         elseif quarter == 3 then
            d = d - 1.5
         else
            d = 1.5 - d
         end
      end
      d = d * (high - low) + low
      if is_whole then
         -- rounds half up, then truncates towards zero
         d = d < 0 and math.ceil(d - 0.5) or math.floor(d + 0.5)
      end
      list[t + 1] = d
   end
   return list
end

local take_phaser = args.signature(prefix .. [[phaser(waveform: tensor, sample_rate: integer,
   gain_in: number = 0.4, gain_out: number = 0.74, delay_ms: number = 3, decay: number = 0.4,
   mod_speed: number = 0.5, sinusoidal: boolean = true)]])

--- Adds a delayed copy of the output (a phaser). The delay rises and falls over time.
---@param waveform Tensor
---@param sample_rate integer
---@param gain_in? number  the factor of the input, 0.4 by default
---@param gain_out? number  the factor of the output, 0.74 by default
---@param delay_ms? number  the longest delay in milliseconds, 3 by default
---@param decay? number  the factor of the delayed output, 0.4 by default
---@param mod_speed? number  the rate in Hz at which the delay changes, 0.5 by default
---@param sinusoidal? boolean  whether the delay follows a sine instead of a triangle
---@return Tensor
function M.phaser(...)
   local title, a = prefix .. "phaser", take_phaser(...)
   checks.waveform(title, a.waveform)
   checks.positive(title, "sample_rate", a.sample_rate)
   checks.positive(title, "mod_speed", a.mod_speed)
   local most = math.floor(a.delay_ms * 0.001 * a.sample_rate + 0.5)
   if most < 1 then args.refuse(title, "delay_ms", "at least a sample", a.delay_ms) end
   local period = math.floor(a.sample_rate / a.mod_speed + 0.5)
   checks.at_least(title, "sample_rate / mod_speed", period, 1)
   local wave = wave_of(a.sinusoidal, true, period, 1.0, most, math.pi / 2)
   local x, restore = checks.batch(a.waveform, 1)
   local n, rows = x:size(-1), x:size(1)
   local function delay_at(i) return 1 + (most - wave[i % period + 1]) % most end
   x = x * a.gain_in
   -- `history` holds the last `most` outputs before sample i. A block ends before the first sample
   -- whose delayed sample is not in `history`.
   local history, pieces, i = x:new_zeros(rows, most), {}, 0
   while i < n do
      local index, size = {}, 0
      while i + size < n and size < most do
         local at = most + size - delay_at(i + size)
         if at >= most then break end
         size = size + 1
         index[size] = at + 1
      end
      local delayed = history:index_select(2, torch.tensor(index, {device = x.device}))
      local piece = x:narrow(2, i + 1, size) + delayed * a.decay
      pieces[#pieces + 1] = piece
      history = torch.cat({history:narrow(2, size + 1, most - size), piece}, 2)
      i = i + size
   end
   return restore((torch.cat(pieces, 2) * a.gain_out):clamp(-1, 1))
end

local modulations <const> = {sinusoidal = true, triangular = true}
local interpolations <const> = {linear = true, quadratic = true}

-- Interpolates in a history (rows, channels, length). Returns the values at the positions `at`
-- minus `share`, where 0 <= share < 1.
local function between(history, at, share, is_linear)
   local x0, x1 = history:gather(3, at), history:gather(3, at - 1)
   if is_linear then return x0 + (x1 - x0) * share end
   local x2 = history:gather(3, (at - 2):clamp(1)) - x0
   x1 = x1 - x0
   return x0 + ((x2 * 0.5 - x1) * share + (x1 * 2 - x2 * 0.5)) * share
end

-- Returns the delayed signal, (rows, channels, n). delays[c][i] is the delay of channel c at sample
-- i, in samples, and is less than length - 1.
local function delayed_signal(x, delays, length, feedback, is_linear)
   local rows, channels, n = table.unpack(x.shape)
   -- The history ends with sample i, counted from 0. Samples before sample 0 are zero.
   local history = F.pad(x:narrow(3, 1, 1), {length, 0})
   local pieces, i = {}, 0
   while i < n do
      local index, shares, size = {}, {}, 0
      for c = 1, channels do index[c], shares[c] = {}, {} end
      -- Without feedback, the delayed samples come from the input alone, so one block computes all
      -- of them.
      local most = feedback == 0 and n or n - i
      while i + size < n and size < most do
         local fits = true
         for c = 1, channels do
            fits = fits and (feedback == 0 or delays[c][i + size + 1] // 1 >= size)
         end
         if not fits then break end
         size = size + 1
         for c = 1, channels do
            local delay = delays[c][i + size]
            local whole = math.floor(delay)
            index[c][size] = length + size - whole
            shares[c][size] = delay - whole
         end
      end
      local options = {device = x.device}
      local at = torch.tensor(index, options):unsqueeze(1):expand(rows, channels, size)
      local share = torch.tensor(shares, {device = x.device, dtype = x.dtype})
      local source = history
      if feedback == 0 then source = F.pad(x, {length, 0}) end
      local piece = between(source, at, share, is_linear)
      pieces[#pieces + 1] = piece
      i = i + size
      if i < n then
         -- A delayed sample is fed back one sample later: the delayed sample at k - 1 is added to
         -- sample k of the input.
         local sums = x:narrow(3, i - size + 2, size) + piece * feedback
         history = torch.cat({history, sums}, 3)
         history = history:narrow(3, history:size(3) - length, length + 1)
      end
   end
   return torch.cat(pieces, 3)
end

local take_flanger = args.signature(prefix .. [[flanger(waveform: tensor, sample_rate: integer,
   delay: number = 0, depth: number = 2, regen: number = 0, width: number = 71,
   speed: number = 0.5, phase: number = 25, modulation: string = 'sinusoidal',
   interpolation: string = 'linear')]])

--- Adds a delayed copy of the input (a flanger). The delay rises and falls over time.
---@param waveform Tensor  (..., channels, time), at most 4 channels
---@param sample_rate integer
---@param delay? number  the shortest delay in milliseconds, from 0 to 30
---@param depth? number  the range in milliseconds over which the delay changes, from 0 to 10, 2 by
--- default
---@param regen? number  the share of the delayed signal that is fed back, from -95 to 95 percent
---@param width? number  the share of the delayed signal in the result, from 0 to 100 percent, 71 by
--- default
---@param speed? number  the rate in Hz at which the delay changes, 0.5 by default
---@param phase? number  the shift between channels, from 0 to 100 percent, 25 by default
---@param modulation? string  "sinusoidal" or "triangular"
---@param interpolation? string  "linear" or "quadratic"
---@return Tensor
function M.flanger(...)
   local title, a = prefix .. "flanger", take_flanger(...)
   checks.waveform(title, a.waveform, 2)
   checks.positive(title, "sample_rate", a.sample_rate)
   checks.positive(title, "speed", a.speed)
   checks.at_least(title, "delay", a.delay, 0)
   checks.at_least(title, "depth", a.depth, 0)
   checks.among(title, "modulation", a.modulation, modulations)
   checks.among(title, "interpolation", a.interpolation, interpolations)
   local x, restore = checks.batch(a.waveform, 2)
   local channels, n = x:size(2), x:size(3)
   if channels > 4 then args.refuse(title, "waveform", "at most 4 channels", a.waveform) end
   local feedback, share = a.regen / 100, a.width / 100
   local in_gain = 1 / (1 + share)
   local out_gain = share / (1 + share) * (1 - math.abs(feedback))
   local shortest, depth = a.delay / 1000, a.depth / 1000
   local length = math.floor((shortest + depth) * a.sample_rate + 0.5) + 2
   local period = math.floor(a.sample_rate / a.speed)
   checks.at_least(title, "sample_rate / speed", period, 1)
   local wave = wave_of(a.modulation == "sinusoidal", false, period,
      math.floor(shortest * a.sample_rate + 0.5), length - 2, 3 * math.pi / 2)
   -- torchaudio stores the wave in float32, so its values are rounded here too
   local rounded = torch.tensor(wave):tolist()
   local delays = {}
   for c = 1, channels do
      local shift = math.floor((c - 1) * period * (a.phase / 100) + 0.5)
      local row = {}
      for i = 1, n do row[i] = rounded[(i - 1 + shift) % period + 1] end
      delays[c] = row
   end
   local delayed = delayed_signal(x, delays, length, feedback, a.interpolation == "linear")
   return restore((x * in_gain + delayed * out_gain):clamp(-1, 1))
end

return M
