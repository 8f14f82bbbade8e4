-- init.lua - torch.audio.functional: functions of waveforms and spectra with torchaudio's names.

require "tlua" -- after this, `require` finds the core's modules
local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.audio.functional", {
   spectra = [[spectrogram inverse_spectrogram griffinlim amplitude_to_DB DB_to_amplitude
      phase_vocoder spectral_centroid detect_pitch_frequency]],
   bands = "melscale_fbanks linear_fbanks create_dct compute_deltas sliding_window_cmn",
   masks = "mask_along_axis mask_along_axis_iid",
   resampling = "resample speed pitch_shift",
   filters = "lfilter filtfilt preemphasis deemphasis",
   biquads = [[biquad allpass_biquad band_biquad bandpass_biquad bandreject_biquad bass_biquad
      treble_biquad equalizer_biquad highpass_biquad lowpass_biquad riaa_biquad deemph_biquad]],
   effects = "contrast dcshift dither flanger gain overdrive phaser",
   waves = [[convolve fftconvolve add_noise loudness mu_law_encoding mu_law_decoding
      frechet_distance]],
   beamforming = [[psd mvdr_weights_souden mvdr_weights_rtf rtf_evd rtf_power
      apply_beamforming]],
   alignment = "edit_distance forced_align merge_tokens",
   transducer = "rnnt_loss",
   activity = "vad",
}))
