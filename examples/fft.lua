-- Removes noise from a sound of gliding tones by Fourier transforms: keeps only the strong
-- frequencies of each moment. Draws the spectrograms before and after:
--
--    tlua examples/fft.lua
--    tlua examples/fft.lua --noise 1.5 --save /tmp/spectrogram.png
local torch = require "tlua"

local parser = torch.utils.options("fft.lua", "Removes noise from a sound.")
parser:option("--seconds", "length of the sound", 2.0)
parser:option("--rate", "samples a second", 8000)
parser:option("--noise", "standard deviation of the noise", 1.0)
parser:option("--seed", "what the random numbers start from", 1)
parser:option("--save", "the image file of the spectrogram, SVG or PNG", "spectrogram.png")
local opt = parser:parse()

torch.manual_seed(opt.seed)

-- The sound: a chord of two steady tones, and one that glides upwards -----------------------------

local time = torch.arange(math.floor(opt.seconds * opt.rate)) / opt.rate
local function tone(frequency, slope)
   return (2 * math.pi * (time * frequency + time:square() * ((slope or 0) / 2))):sin()
end
local clean = tone(440) + tone(660) + tone(800, 900)
local noisy = clean + torch.randn(#time) * opt.noise

-- The whole sound's spectrum names the steady tones -----------------------------------------------

local spectrum = torch.fft.rfft(noisy * torch.hann_window(#time)):abs()
local frequencies = torch.fft.rfftfreq(#time, 1 / opt.rate)
local _, places = spectrum:topk(2)
local found = frequencies[places]:round():sort():tolist()
print(("strongest tones: %.0f and %.0f Hz"):format(found[1], found[2]))

-- A short-time transform follows the gliding tone -------------------------------------------------

local n_fft, hop = 512, 128
local window = torch.hann_window(n_fft)
-- the transform has the shape (frequencies, frames)
local columns = torch.stft(noisy, n_fft, hop, {window = window})

-- Noise is about equally strong at all frequencies and times, so the median measures its strength.
-- Everything less than four times as strong counts as noise.
local strength = columns:abs()
local threshold = strength:median() * 4
local kept = columns * (strength:gt(threshold):to(strength.dtype))
local denoised = torch.istft(kept, n_fft, hop, {window = window, length = #time})

-- Returns the signal-to-noise ratio in decibels: the strength of the clean sound, relative to the
-- strength of the difference between `sound` and the clean sound.
local function quality(sound)
   local rest = sound - clean
   return 10 * math.log(clean:square():sum():item() / rest:square():sum():item(), 10)
end
print(("signal to noise: %.1f dB before, %.1f dB after"):format(quality(noisy), quality(denoised)))

-- Spectrograms: time to the right, frequencies upwards, up to 4 kHz -------------------------------

local function picture(z)
   local decibels = (z:abs() + 1e-3):log10() * 20
   return ((decibels + 20) / 70):clamp(0, 1):flip(1)
end
local function small(image) -- shrinks an image for the terminal
   local low = image[{{100, -1}}]:unsqueeze(1)
   return torch.nn.functional.adaptive_avg_pool2d(low, {20, 39}):squeeze(1)
end
print(torch.utils.plot.image(small(picture(columns)), {title = "before"}))
print(torch.utils.plot.image(small(picture(kept)), {title = "after"}))
torch.utils.plot.image(torch.stack {picture(columns), picture(kept)},
   {columns = 2, gap = 4, scale = 2, save = opt.save})
print("wrote " .. opt.save)
