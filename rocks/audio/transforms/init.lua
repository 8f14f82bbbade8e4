-- init.lua - torch.audio.transforms: the functions of torch.audio.functional as modules.

require "tlua" -- after this, `require` finds the core's modules
local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.audio.transforms", {
   spectra = [[Spectrogram InverseSpectrogram GriffinLim AmplitudeToDB MelScale InverseMelScale
      MelSpectrogram MFCC LFCC SpectralCentroid TimeStretch ComputeDeltas SlidingWindowCmn]],
   waves = [[Resample PitchShift Speed SpeedPerturbation Fade Vol Loudness Vad MuLawEncoding
      MuLawDecoding Preemphasis Deemphasis Convolve FFTConvolve AddNoise RNNTLoss]],
   masks = "FrequencyMasking TimeMasking SpecAugment",
   beamforming = "PSD MVDR RTFMVDR SoudenMVDR",
}))
