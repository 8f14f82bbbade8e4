-- cd rocks/audio && luarocks --lua-version 5.4 make
rockspec_format = "3.0"
package = "tlua-audio"
version = "scm-1"
source = {url = "git+file://."}
description = {
   summary = "Sound: files, transforms and models by torchaudio's names",
   license = "MIT",
}
dependencies = {"lua ~> 5.4", "tlua"}
build = {
   type = "builtin",
   modules = {
      ["tlua.audio.checks"] = "checks.lua",
      ["tlua.audio.companding"] = "companding.lua",
      ["tlua.audio.files"] = "files.lua",
      ["tlua.audio.functional.activity"] = "functional/activity.lua",
      ["tlua.audio.functional.alignment"] = "functional/alignment.lua",
      ["tlua.audio.functional.bands"] = "functional/bands.lua",
      ["tlua.audio.functional.beamforming"] = "functional/beamforming.lua",
      ["tlua.audio.functional.biquads"] = "functional/biquads.lua",
      ["tlua.audio.functional.effects"] = "functional/effects.lua",
      ["tlua.audio.functional.filters"] = "functional/filters.lua",
      ["tlua.audio.compliance"] = "compliance.lua",
      ["tlua.audio.kaldi"] = "kaldi.lua",
      ["tlua.audio.functional"] = "functional/init.lua",
      ["tlua.audio.functional.masks"] = "functional/masks.lua",
      ["tlua.audio.functional.recursion"] = "functional/recursion.lua",
      ["tlua.audio.functional.resampling"] = "functional/resampling.lua",
      ["tlua.audio.functional.spectra"] = "functional/spectra.lua",
      ["tlua.audio.functional.transducer"] = "functional/transducer.lua",
      ["tlua.audio.functional.waves"] = "functional/waves.lua",
      ["tlua.audio"] = "init.lua",
      ["tlua.audio.models.conformer"] = "models/conformer.lua",
      ["tlua.audio.models.conv_tasnet"] = "models/conv_tasnet.lua",
      ["tlua.audio.models.decoder.CTCDecoder"] = "models/decoder/CTCDecoder.lua",
      ["tlua.audio.models.decoder.arpa"] = "models/decoder/arpa.lua",
      ["tlua.audio.models.decoder"] = "models/decoder/init.lua",
      ["tlua.audio.models.decoder.lists"] = "models/decoder/lists.lua",
      ["tlua.audio.models.deepspeech"] = "models/deepspeech.lua",
      ["tlua.audio.models.emformer"] = "models/emformer.lua",
      ["tlua.audio.models"] = "models/init.lua",
      ["tlua.audio.models.rnnt"] = "models/rnnt.lua",
      ["tlua.audio.models.rnnt_search"] = "models/rnnt_search.lua",
      ["tlua.audio.models.wav2letter"] = "models/wav2letter.lua",
      ["tlua.audio.models.wav2vec2"] = "models/wav2vec2.lua",
      ["tlua.audio.models.whisper"] = "models/whisper.lua",
      ["tlua.audio.transforms.beamforming"] = "transforms/beamforming.lua",
      ["tlua.audio.transforms.define"] = "transforms/define.lua",
      ["tlua.audio.transforms"] = "transforms/init.lua",
      ["tlua.audio.transforms.masks"] = "transforms/masks.lua",
      ["tlua.audio.transforms.spectra"] = "transforms/spectra.lua",
      ["tlua.audio.transforms.waves"] = "transforms/waves.lua",
      ["tlua.audio.vocabulary"] = "vocabulary.lua",
      ["tlua.audio.wav"] = "wav.lua",
   },
}
