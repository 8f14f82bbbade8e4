-- deberta.lua - DeBERTa (He et al., 2020), DeBERTa v2 and v3: BERT's encoder with attention scores
-- that are the sum of a score of the contents and a score of the relative position.

local torch = require "tlua"
local class = require "tlua.class"
local define = require "tlua.text.models.define"
local encoder = require "tlua.text.models.encoder"
local layers = require "tlua.text.models.layers"
local masks = require "tlua.text.models.masks"

local nn, F = torch.nn, torch.nn.functional

-- Positions -------------------------------------------------------------------------------------

-- Returns the distances (L, L) from keys to queries, in tokens. If the configuration has
-- position_buckets, large distances are compressed logarithmically.
local function distances(n, config, device)
   local at = torch.arange(0, n, {dtype = "int64", device = device})
   local distance = at:unsqueeze(2) - at:unsqueeze(1)
   local buckets, most = config.position_buckets or -1, config.max_relative_positions
   if buckets <= 0 then return distance end
   local middle, size = buckets // 2, distance:abs()
   local far = torch.where(size:lt(middle), middle - 1, size):double()
   local log = ((far / middle):log() / math.log((most - 1) / middle) * (middle - 1)):ceil() + middle
   return torch.where(far:le(middle), distance, (log * distance:sign()):long())
end

-- Attention -------------------------------------------------------------------------------------

local Attention = class.class("text.models.DebertaAttention", nn.Module)

local function has(config, kind)
   for _, own in ipairs(config.pos_att_type) do
      if own == kind then return true end
   end
   return false
end

function Attention:__init(config)
   local size = config.hidden_size
   self.heads, self.p, self.config = config.num_attention_heads,
      config.attention_probs_dropout_prob, config
   self.is_first = config.model_type == "deberta"
   self.by_content = config.relative_attention and has(config, "c2p")
   self.by_position = config.relative_attention and has(config, "p2c")
   if self.is_first then
      self.in_proj = nn.Linear(size, 3 * size, {bias = false})
      self.q_bias = nn.Parameter(torch.zeros(size))
      self.v_bias = nn.Parameter(torch.zeros(size))
      if self.by_content then self.pos_proj = nn.Linear(size, size, {bias = false}) end
      if self.by_position then self.pos_q_proj = nn.Linear(size, size) end
   else
      self.query_proj, self.key_proj = nn.Linear(size, size), nn.Linear(size, size)
      self.value_proj = nn.Linear(size, size)
      if not config.share_att_key then
         if self.by_content then self.pos_key_proj = nn.Linear(size, size) end
         if self.by_position then self.pos_query_proj = nn.Linear(size, size) end
      end
   end
   self.pos_dropout = nn.Dropout(config.hidden_dropout_prob)
end

-- Returns the queries, keys and values of x, (B, heads, L, D).
function Attention:project(x)
   local n = self.heads
   if not self.is_first then
      return layers.split_heads(self.query_proj(x), n), layers.split_heads(self.key_proj(x), n),
         layers.split_heads(self.value_proj(x), n)
   end
   local q, k, v = table.unpack(layers.split_heads(self.in_proj(x), n):chunk(3, -1))
   return q + self.q_bias:view(n, 1, -1), k, v + self.v_bias:view(n, 1, -1)
end

-- Returns the keys and the queries of relative positions, (1, heads, 2 * span, D). Either is nil or
-- false if the configuration does not use it.
function Attention:positions(embeddings)
   local key = rawget(self, "pos_proj") or rawget(self, "pos_key_proj") or rawget(self, "key_proj")
   local query = rawget(self, "pos_q_proj") or rawget(self, "pos_query_proj")
      or rawget(self, "query_proj")
   local x = self.pos_dropout(embeddings):unsqueeze(1)
   return self.by_content and layers.split_heads(key(x), self.heads),
      self.by_position and layers.split_heads(query(x), self.heads)
end

-- Returns the unscaled attention scores (B, heads, L, L) of relative positions.
function Attention:bias(q, k, relative)
   local key, query = self:positions(relative.embeddings)
   local b, n, length, span = q:size(1), q:size(2), q:size(3), relative.span
   local index = (relative.distances + span):clamp(0, 2 * span - 1) + 1
   index = index:view(1, 1, length, length):expand(b, n, length, length)
   local sum
   if key then sum = q:matmul(key:transpose(3, 4)):gather(4, index) end
   if query then
      -- Row k of these scores belongs to key k, and column q to the distance from k to query q.
      local scores = k:matmul(query:transpose(3, 4)):gather(4, index:transpose(3, 4))
      scores = scores:transpose(3, 4)
      sum = sum and sum + scores or scores
   end
   return sum
end

function Attention:forward(x, mask, relative)
   local q, k, v = self:project(x)
   local terms = 1 + (self.by_content and 1 or 0) + (self.by_position and 1 or 0)
   if self.is_first then terms = 1 + #self.config.pos_att_type end
   local scale = (q:size(4) * terms) ^ -0.5
   local bias = relative and (self.by_content or self.by_position)
      and self:bias(q, k, relative) * scale
   if bias and mask then bias = bias:masked_fill(mask:logical_not(), -math.huge) end
   local y = F.scaled_dot_product_attention(q, k, v, bias or mask, self.training and self.p or 0.0,
      false, {scale = scale})
   return layers.join_heads(y)
end

-- The model -------------------------------------------------------------------------------------

local Embeddings = class.class("text.models.DebertaEmbeddings", nn.Module)

function Embeddings:__init(config)
   local size = config.embedding_size or config.hidden_size
   self.word_embeddings = nn.Embedding(config.vocab_size, size,
      {padding_idx = config.pad_token_id + 1})
   if config.position_biased_input then
      self.position_embeddings = nn.Embedding(config.max_position_embeddings, size)
   end
   if config.type_vocab_size > 0 then
      self.token_type_embeddings = nn.Embedding(config.type_vocab_size, size)
   end
   if size ~= config.hidden_size then
      self.embed_proj = nn.Linear(size, config.hidden_size, {bias = false})
   end
   self.LayerNorm = encoder.norm(config.hidden_size, config)
   self.dropout = nn.Dropout(config.hidden_dropout_prob)
end

function Embeddings:forward(a, padding)
   local x = a.inputs_embeds or self.word_embeddings(a.input_ids)
   local own = rawget(self, "position_embeddings")
   if own and not a.position_ids and x:size(2) > own.num_embeddings then
      torch.raise(("text.Deberta: input_ids: expected at most %d tokens "
         .. "(max_position_embeddings), got %d"):format(own.num_embeddings, x:size(2)))
   end
   if own then
      x = x + (a.position_ids and self.position_embeddings(a.position_ids)
         or self.position_embeddings.weight:narrow(1, 1, x:size(2)))
   end
   local kinds = rawget(self, "token_type_embeddings")
   if kinds then x = x + (a.token_type_ids and kinds(a.token_type_ids) or kinds.weight[1]) end
   if rawget(self, "embed_proj") then x = self.embed_proj(x) end
   x = self.LayerNorm(x)
   if padding then x = x * padding:unsqueeze(3):to(x.dtype) end
   return self.dropout(x)
end

local Encoder = class.class("text.models.DebertaEncoder", nn.Module)

function Encoder:__init(config)
   self.layer = layers.list(config.num_hidden_layers, function()
      return encoder.Layer(config, Attention)
   end)
   self.config = config
   if not config.relative_attention then return end
   local buckets = config.position_buckets or -1
   self.span = buckets > 0 and buckets or config.max_relative_positions
   self.rel_embeddings = nn.Embedding(2 * self.span, config.hidden_size)
   if config.norm_rel_ebd and config.norm_rel_ebd:lower():find "layer_norm" then
      self.LayerNorm = encoder.norm(config.hidden_size, config)
   end
end

-- Returns the embeddings and distances of relative positions, which all layers share.
function Encoder:relative(x)
   local embeddings, n = rawget(self, "rel_embeddings"), x:size(2)
   if not embeddings then return nil end
   local weight, span = embeddings.weight, self.span
   if rawget(self, "LayerNorm") then weight = self.LayerNorm(weight) end
   if self.config.model_type == "deberta" and n < span then
      weight, span = weight:narrow(1, span - n + 1, 2 * n), n
   end
   return {embeddings = weight, span = span, distances = distances(n, self.config, x.device)}
end

function Encoder:forward(x, mask, states)
   local relative = self:relative(x)
   for _, layer in ipairs(self.layer) do
      x = layer(x, mask, relative)
      if states then states[#states + 1] = x end
   end
   return x
end

local Pooler = class.class("text.models.DebertaPooler", nn.Module)

function Pooler:__init(config)
   self.dense = nn.Linear(config.hidden_size, config.hidden_size)
   self.dropout, self.act = nn.Dropout(config.pooler_dropout or 0), config.pooler_hidden_act
end

function Pooler:forward(x)
   return layers.activated(self.dense, self.dropout(x:select(2, 1)), self.act)
end

local function declare(model_type, name, changes)
   local defaults = {
      relative_attention = false, max_relative_positions = -1, position_biased_input = true,
      pooler_hidden_act = "gelu",
   }
   for _, list in ipairs {encoder.defaults, changes} do
      for key, value in pairs(list) do defaults[key] = value end
   end
   local family = define.family {
      model_type = model_type, name = name, prefix = "deberta", defaults = defaults,
      has_types = true,
      finish = function(config)
         encoder.check(config)
         if config.max_relative_positions < 1 then
            config.max_relative_positions = config.max_position_embeddings
         end
         local kinds = config.pos_att_type or {}
         if type(kinds) == "string" then
            local list = {}
            for kind in kinds:gmatch "[^|%s]+" do list[#list + 1] = kind end
            kinds = list
         end
         config.pos_att_type = kinds
         if config.talking_head or (config.conv_kernel_size or 0) > 0 then
            torch.raise(("text.%s: config: expected no talking_head and no conv_kernel_size")
               :format(name))
         end
      end,
      width = function(config) return config.hidden_size end,
      ignore = {"^lm_predictions%.", "^mask_predictions%."},
   }

   local Model = family:class "Model"
   function Model:build(config)
      self.embeddings, self.encoder = Embeddings(config), Encoder(config)
   end
   function Model:compute(a)
      local source = a.inputs_embeds or a.input_ids
      local padding = masks.padding(torch.type(self), a.attention_mask, source:size(1),
         source:size(2))
      local x = self.embeddings(a, padding)
      local states = a.output_hidden_states and {x} or nil
      x = self.encoder(x, masks.encoder(padding), states)
      return {last_hidden_state = x, hidden_states = states}
   end

   encoder.masked_lm(family, Model, {
      attach = function(self, config) self.cls = encoder.Heads(config) end,
      score = function(self, x) return self.cls.predictions(x) end,
      ties = {
         {"cls.predictions.decoder.weight", "deberta.embeddings.word_embeddings.weight"},
         {"cls.predictions.decoder.bias", "cls.predictions.bias"},
      },
   })
   local Classifier = family:class "ForSequenceClassification"
   function Classifier:build(config)
      self.deberta, self.pooler = Model(config), Pooler(config)
      self.classifier = nn.Linear(config.hidden_size, config.num_labels)
      self.dropout = nn.Dropout(config.cls_dropout or config.hidden_dropout_prob)
   end
   function Classifier:compute(a)
      local results = self.deberta(a)
      local logits = self.classifier(self.dropout(self.pooler(results.last_hidden_state)))
      return define.with(results, {
         logits = logits, loss = a.labels and define.class_loss(self.config, logits, a.labels),
      })
   end
   encoder.token_heads(family, Model)
   return family
end

return define.by_type(
   declare("deberta", "Deberta", {
      vocab_size = 50265, type_vocab_size = 0, layer_norm_eps = 1e-7,
   }),
   declare("deberta-v2", "DebertaV2", {
      vocab_size = 128100, hidden_size = 1536, num_hidden_layers = 24, num_attention_heads = 24,
      intermediate_size = 6144, type_vocab_size = 0, layer_norm_eps = 1e-7, share_att_key = false,
   }))
