-- bench.lua - times functions and transforms of this package; bench.py times torchaudio's:
--
--    build/tlua rocks/audio/spec/bench.lua > ours; python rocks/audio/spec/bench.py > theirs
--    paste ours theirs | awk '{print $1, $2, $4, $4 / $2}'
--
-- The program prints the smallest number of milliseconds of several calls, on one thread, for 4 seconds of sound at 16
-- kHz in a batch of 4.

local torch = require "tlua"

torch.set_num_threads(1)
torch.manual_seed(0)

local f, T = torch.audio.functional, torch.audio.transforms

local x = torch.randn(4, 64000) * 0.1
local noise, snr = torch.randn(4, 64000), torch.ones(4)
local kernel, impulse = torch.randn(4, 100), torch.randn(4, 4000)
local spectrum = T.Spectrogram {power = false}(x)
local power = spectrum:abs():square()
local a, b = torch.tensor {1, -1.2, 0.8, -0.1}, torch.tensor {0.3, 0.2, -0.1, 0.4}
local logits, targets = torch.randn(4, 100, 31, 40), torch.randint(1, 40, {4, 30})
local frames, chars = torch.full({4}, 100):long(), torch.full({4}, 30):long()

local function module(transform, ...)
   local given = table.pack(...)
   return function() return transform(table.unpack(given, 1, given.n)) end
end

local cases <const> = {
   {"Spectrogram", module(T.Spectrogram(), x)},
   {"MelSpectrogram", module(T.MelSpectrogram(), x)},
   {"MFCC", module(T.MFCC(), x)},
   {"LFCC", module(T.LFCC(), x)},
   {"InverseSpectrogram", module(T.InverseSpectrogram(), spectrum, 64000)},
   {"GriffinLim", module(T.GriffinLim {n_iter = 8}, power)},
   {"AmplitudeToDB", module(T.AmplitudeToDB("power", 80), power)},
   {"TimeStretch", module(T.TimeStretch {fixed_rate = 1.3}, spectrum)},
   {"SpectralCentroid", module(T.SpectralCentroid(16000), x)},
   {"ComputeDeltas", module(T.ComputeDeltas(), power)},
   {"SlidingWindowCmn", module(T.SlidingWindowCmn(), power:transpose(2, 3))},
   {"Resample_44100", module(T.Resample(16000, 44100), x)},
   {"Resample_8000", module(T.Resample(16000, 8000), x)},
   {"Resample_11025", module(T.Resample(16000, 11025), x)},
   {"PitchShift", module(T.PitchShift(16000, 4), x)},
   {"SpecAugment", module(T.SpecAugment(2, 30, 2, 30), power)},
   {"Fade", module(T.Fade(1000, 1000), x)},
   {"Vol", module(T.Vol(2), x)},
   {"Loudness", module(T.Loudness(16000), x)},
   {"MuLawEncoding", module(T.MuLawEncoding(), x)},
   {"Preemphasis", module(T.Preemphasis(), x)},
   {"Deemphasis", module(T.Deemphasis(), x)},
   {"Convolve", module(T.Convolve(), x, kernel)},
   {"FFTConvolve", module(T.FFTConvolve(), x, impulse)},
   {"AddNoise", module(T.AddNoise(), x, noise, snr)},
   {"lfilter", function() return f.lfilter(x, a, b) end},
   {"lowpass_biquad", function() return f.lowpass_biquad(x, 16000, 1000) end},
   {"overdrive", function() return f.overdrive(x) end},
   {"rnnt_loss", function() return f.rnnt_loss(logits, targets, frames, chars) end},
   {"detect_pitch_frequency", function() return f.detect_pitch_frequency(x, 16000) end},
}

for _, case in ipairs(cases) do
   case[2]()
   local best, all = math.huge, 0
   for i = 1, 30 do
      local start = torch.io.clock()
      case[2]()
      local taken = torch.io.clock() - start
      best, all = math.min(best, taken), all + taken
      if i >= 5 and all > 0.5 then break end
   end
   print(("%-24s %9.3f"):format(case[1], best * 1e3))
end
