-- init.lua - torch.audio.models: models of sound with torchaudio's names. No weights are
-- downloaded. model:load_state_dict(torch.load "file", {names = "pytorch"}) loads a state dict that
-- torchaudio has saved.

require "tlua" -- after this, `require` finds the core's modules
local lazy = require "tlua.lazy"

local modules = lazy.modules("tlua.audio.models", {
   deepspeech = "DeepSpeech",
   wav2letter = "Wav2Letter",
   conv_tasnet = "ConvTasNet conv_tasnet_base",
   conformer = "Conformer",
   emformer = "Emformer",
   rnnt = "RNNT emformer_rnnt_model emformer_rnnt_base",
   rnnt_search = "RNNTBeamSearch",
   whisper = "Whisper whisper_features",
   wav2vec2 = [[Wav2Vec2Model wav2vec2_model wav2vec2_base wav2vec2_large wav2vec2_large_lv60k
      wav2vec2_xlsr_300m wav2vec2_xlsr_1b wav2vec2_xlsr_2b hubert_base hubert_large hubert_xlarge]],
})
modules.decoder = "tlua.audio.models.decoder"

return lazy.load({}, modules)
