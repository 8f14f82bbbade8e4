-- rnnt.lua - recurrent transducers (Graves, 2012) with an Emformer. A transcriber encodes sound, a
-- predictor encodes the tokens so far, and a joiner computes the scores of the next token.

local torch = require "tlua"
local args = require "tlua.args"
local checks = require "tlua.audio.checks"
local class = require "tlua.class"
local Emformer = require "tlua.audio.models.emformer"

local nn = torch.nn

local M = {}

-- The transcriber -------------------------------------------------------------------------------

local Encoder = class.class("audio.models.EmformerEncoder", nn.Module)

function Encoder:__init(a)
   self.stride = a.time_reduction_stride
   self.input_linear = nn.Linear(a.input_dim, a.time_reduction_input_dim, {bias = false})
   local width = a.time_reduction_input_dim * self.stride
   self.transformer = Emformer(width, a.transformer_num_heads, a.transformer_ffn_dim,
      a.transformer_num_layers, a.segment_length // self.stride, {
         dropout = a.transformer_dropout, activation = a.transformer_activation,
         left_context_length = a.transformer_left_context_length,
         right_context_length = a.right_context_length // self.stride,
         max_memory_size = a.transformer_max_memory_size,
         weight_init_scale_strategy = a.transformer_weight_init_scale_strategy,
         tanh_on_mem = a.transformer_tanh_on_mem,
      })
   self.output_linear = nn.Linear(width, a.encoding_dim)
   self.layer_norm = nn.LayerNorm(a.encoding_dim)
end

-- Concatenates the features of each `stride` consecutive frames to one frame, after a linear layer.
-- Returns the frames and their numbers for each example.
local function reduced(self, input, lengths)
   local title <const> = "audio.models.RNNT"
   local width = self.input_linear.in_features
   if not torch.is_tensor(input) or input:dim() ~= 3 or input:size(3) ~= width then
      args.refuse(title, "sources", ("a tensor of shape (batch, time, %d)"):format(width), input)
   end
   if not torch.is_tensor(lengths) or lengths:is_floating_point() then
      args.refuse(title, "source_lengths", "integers of shape (batch)", lengths)
   end
   local x = self.input_linear(input)
   local n = x:size(2) // self.stride
   if n == 0 then
      args.refuse(title, "sources", ("at least %d frames"):format(self.stride), input)
   end
   x = x:narrow(2, 1, n * self.stride):reshape(x:size(1), n, x:size(3) * self.stride)
   return x, torch.div(lengths, self.stride, {rounding_mode = "trunc"})
end

function Encoder:forward(input, lengths)
   local x, sizes = self.transformer(reduced(self, input, lengths))
   return self.layer_norm(self.output_linear(x)), sizes
end

function Encoder:infer(input, lengths, states)
   local x, sizes = reduced(self, input, lengths)
   local new
   x, sizes, new = self.transformer:infer(x, sizes, states)
   return self.layer_norm(self.output_linear(x)), sizes, new
end

-- The predictor ---------------------------------------------------------------------------------

-- A long short-term memory whose gates and cells may be normalised. Tensors are (time, batch,
-- features).
local LSTM = class.class("audio.models.NormedLSTM", nn.Module)

function LSTM:__init(inputs, size, has_norm, epsilon)
   self.size = size
   self.x2g = nn.Linear(inputs, 4 * size, {bias = not has_norm})
   self.p2g = nn.Linear(size, 4 * size, {bias = false})
   self.c_norm = has_norm and nn.LayerNorm(size, {eps = epsilon}) or nn.Identity()
   self.g_norm = has_norm and nn.LayerNorm(4 * size, {eps = epsilon}) or nn.Identity()
end

function LSTM:forward(input, state)
   local h, c
   if state then
      h, c = table.unpack(state)
   else
      h = torch.zeros(input:size(2), self.size, {dtype = input.dtype, device = input.device})
      c = h
   end
   local inputs, outputs = self.x2g(input), {}
   for t = 1, input:size(1) do
      local gates = self.g_norm(inputs[t] + self.p2g(h))
      local i, f, g, o = table.unpack(gates:chunk(4, 2))
      c = self.c_norm(f:sigmoid() * c + i:sigmoid() * g:tanh())
      h = o:sigmoid() * c:tanh()
      outputs[t] = h
   end
   return torch.stack(outputs, 1), {h, c}
end

local Predictor = class.class("audio.models.RNNTPredictor", nn.Module)

function Predictor:__init(a)
   local width = a.symbol_embedding_dim
   self.symbols = a.num_symbols
   self.embedding = nn.Embedding(a.num_symbols, width)
   self.input_layer_norm = nn.LayerNorm(width)
   self.lstm_layers = nn.ModuleList()
   for _ = 1, a.num_lstm_layers do
      self.lstm_layers:append(LSTM(width, width, a.lstm_layer_norm, a.lstm_layer_norm_epsilon))
   end
   self.dropout = nn.Dropout(a.lstm_dropout)
   self.linear = nn.Linear(width, a.encoding_dim)
   self.output_layer_norm = nn.LayerNorm(a.encoding_dim)
end

function Predictor:forward(targets, lengths, states)
   if not torch.is_tensor(targets) or targets:dim() ~= 2 or targets:is_floating_point()
         or targets:numel() == 0 or targets:min():item() < 1
         or targets:max():item() > self.symbols then
      args.refuse("audio.models.RNNT", "targets", ("tokens from 1 to %d of shape (batch, length)")
         :format(self.symbols), targets)
   end
   local x, new = self.input_layer_norm(self.embedding(targets:t())), {}
   for i, layer in ipairs(self.lstm_layers) do
      x, new[i] = layer(x, states and states[i])
      x = self.dropout(x)
   end
   return self.output_layer_norm(self.linear(x)):transpose(1, 2), lengths, new
end

local Joiner = class.class("audio.models.RNNTJoiner", nn.Module)

function Joiner:__init(inputs, outputs) self.linear = nn.Linear(inputs, outputs) end

function Joiner:forward(sources, source_lengths, targets, target_lengths)
   local x = torch.relu(sources:unsqueeze(3) + targets:unsqueeze(2))
   return self.linear(x), source_lengths, target_lengths
end

-- The model -------------------------------------------------------------------------------------

--- A recurrent transducer; emformer_rnnt_model creates one. A call takes sources (batch, time +
--- right context, features), their lengths (batch) without the right context, targets (batch,
--- length), which are tokens from 1, the lengths of the targets, and optionally the predictor's
--- states. It returns the scores (batch, time, length, tokens), the lengths of encoded sources and
--- targets, and the predictor's new states.
---
---     local models = torch.audio.models
---     local model = models.emformer_rnnt_model {input_dim = 4,
---        encoding_dim = 8, num_symbols = 5, segment_length = 4,
---        right_context_length = 2, time_reduction_input_dim = 4,
---        time_reduction_stride = 2, transformer_num_heads = 2,
---        transformer_ffn_dim = 8, transformer_num_layers = 1,
---        symbol_embedding_dim = 6, num_lstm_layers = 1}
---     local scores = model(torch.randn(1, 10, 4), torch.tensor {8},
---        torch.tensor {{5, 1, 2}}, torch.tensor {3})
---     print(scores.shape)
---     --> torch.Size([1, 4, 3, 5])
---@class audio.models.RNNT: nn.Module
---@field transcriber nn.Module  encodes sound
---@field predictor nn.Module  encodes tokens
---@field joiner nn.Module  computes the scores of the next token
---@overload fun(transcriber: nn.Module, predictor: nn.Module, joiner: nn.Module): nn.Module
local RNNT = class.class("audio.models.RNNT", nn.Module)
M.RNNT = RNNT

function RNNT:__init(transcriber, predictor, joiner)
   for name, part in pairs {transcriber = transcriber or false, predictor = predictor or false,
         joiner = joiner or false} do
      if not class.isinstance(part, nn.Module) then
         args.refuse("audio.models.RNNT", name, "a module", part or nil)
      end
   end
   self.transcriber, self.predictor, self.joiner = transcriber, predictor, joiner
end

function RNNT:forward(sources, source_lengths, targets, target_lengths, predictor_state)
   local x, sizes = self.transcriber(sources, source_lengths)
   local y, lengths, state = self.predictor(targets, target_lengths, predictor_state)
   local scores
   scores, sizes, lengths = self.joiner(x, sizes, y, lengths)
   return scores, sizes, lengths, state
end

--- Encodes sound.
---@param sources Tensor  (batch, time + right context, features)
---@param source_lengths Tensor  (batch)
---@return Tensor encodings  (batch, time, encoding_dim)
---@return Tensor lengths  (batch)
function RNNT:transcribe(sources, source_lengths)
   return self.transcriber(sources, source_lengths)
end

--- Encodes the next segment of a stream.
---@param sources Tensor  (batch, segment_length + right_context_length, features)
---@param source_lengths Tensor  (batch): the numbers of valid frames, right context included
---@param state? table[]  the states that the call for the previous segment returned
---@return Tensor encodings
---@return Tensor lengths
---@return table[] state
function RNNT:transcribe_streaming(sources, source_lengths, state)
   return self.transcriber:infer(sources, source_lengths, state)
end

--- Encodes tokens.
---@param targets Tensor  (batch, length): tokens from 1
---@param target_lengths Tensor  (batch)
---@param state? Tensor[][]
---@return Tensor encodings  (batch, length, encoding_dim)
---@return Tensor lengths  (batch)
---@return Tensor[][] state
function RNNT:predict(targets, target_lengths, state)
   return self.predictor(targets, target_lengths, state)
end

--- Computes the scores of the next token.
---@param source_encodings Tensor  (batch, time, encoding_dim)
---@param source_lengths Tensor  (batch)
---@param target_encodings Tensor  (batch, length, encoding_dim)
---@param target_lengths Tensor  (batch)
---@return Tensor scores  (batch, time, length, tokens)
---@return Tensor source_lengths
---@return Tensor target_lengths
function RNNT:join(source_encodings, source_lengths, target_encodings, target_lengths)
   return self.joiner(source_encodings, source_lengths, target_encodings, target_lengths)
end

local take = args.signature [[audio.models.emformer_rnnt_model(input_dim: count,
   encoding_dim: count, num_symbols: count, segment_length: count, right_context_length: integer,
   time_reduction_input_dim: count, time_reduction_stride: count, transformer_num_heads: count,
   transformer_ffn_dim: count, transformer_num_layers: count, transformer_dropout: number = 0,
   transformer_activation: string = 'relu', transformer_left_context_length: integer = 0,
   transformer_max_memory_size: integer = 0,
   transformer_weight_init_scale_strategy: string = 'depthwise',
   transformer_tanh_on_mem: boolean = false, symbol_embedding_dim: count, num_lstm_layers: count,
   lstm_layer_norm: boolean = false, lstm_layer_norm_epsilon: number = 1e-5,
   lstm_dropout: number = 0)]]

--- Returns a recurrent transducer whose transcriber is an Emformer. The model joins each
--- time_reduction_stride frames of the input into one frame. segment_length and
--- right_context_length are counted in frames of the input, transformer_left_context_length in
--- joined frames.
---@param options {input_dim: integer, encoding_dim: integer, num_symbols: integer,
--- segment_length: integer, right_context_length: integer, time_reduction_input_dim: integer,
--- time_reduction_stride: integer, transformer_num_heads: integer, transformer_ffn_dim: integer,
--- transformer_num_layers: integer, transformer_dropout: number, transformer_activation: string,
--- transformer_left_context_length: integer, transformer_max_memory_size: integer,
--- transformer_weight_init_scale_strategy: string, transformer_tanh_on_mem: boolean,
--- symbol_embedding_dim: integer, num_lstm_layers: integer, lstm_layer_norm: boolean,
--- lstm_layer_norm_epsilon: number, lstm_dropout: number}
---@return audio.models.RNNT
function M.emformer_rnnt_model(options)
   local a = take(options)
   for _, name in ipairs {"segment_length", "right_context_length"} do
      checks.at_least("audio.models.emformer_rnnt_model", name, a[name], 0)
      if a[name] % a.time_reduction_stride ~= 0 then
         args.refuse("audio.models.emformer_rnnt_model", name,
            ("a multiple of time_reduction_stride, %d"):format(a.time_reduction_stride), a[name])
      end
   end
   return RNNT(Encoder(a), Predictor(a), Joiner(a.encoding_dim, a.num_symbols))
end

local take_base = args.signature "audio.models.emformer_rnnt_base(num_symbols: count)"

--- Returns torchaudio's base model: a recurrent transducer with an Emformer, for frames of 80
--- features.
---@param num_symbols integer  the number of tokens, the blank one included
---@return audio.models.RNNT
function M.emformer_rnnt_base(...)
   local num_symbols = take_base(...).num_symbols
   return M.emformer_rnnt_model {
      input_dim = 80, encoding_dim = 1024, num_symbols = num_symbols, segment_length = 16,
      right_context_length = 4, time_reduction_input_dim = 128, time_reduction_stride = 4,
      transformer_num_heads = 8, transformer_ffn_dim = 2048, transformer_num_layers = 20,
      transformer_dropout = 0.1, transformer_activation = "gelu",
      transformer_left_context_length = 30, transformer_max_memory_size = 0,
      transformer_weight_init_scale_strategy = "depthwise", transformer_tanh_on_mem = true,
      symbol_embedding_dim = 512, num_lstm_layers = 3, lstm_layer_norm = true,
      lstm_layer_norm_epsilon = 1e-3, lstm_dropout = 0.3,
   }
end

return M
