-- clip.lua - CLIP (Radford et al., 2021) and SigLIP (Zhai et al., 2023). A text encoder and an
-- image encoder compute embeddings whose scalar products say how well a text fits an image.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local configs = require "tlua.text.models.config"
local define = require "tlua.text.models.define"
local layers = require "tlua.text.models.layers"
local masks = require "tlua.text.models.masks"

local nn, F = torch.nn, torch.nn.functional

-- The encoder that both parts have ---------------------------------------------------------------

local Attention = class.class("text.models.CLIPAttention", nn.Module)

function Attention:__init(config)
   local size = config.hidden_size
   self.heads, self.options, self.p = config.num_attention_heads, {dropout = 0.0},
      config.attention_dropout
   self.k_proj, self.v_proj = nn.Linear(size, size), nn.Linear(size, size)
   self.q_proj, self.out_proj = nn.Linear(size, size), nn.Linear(size, size)
end

function Attention:forward(x, state)
   local n = self.heads
   self.options.dropout = self.training and self.p or 0.0
   local y = layers.attend(layers.split_heads(self.q_proj(x), n),
      layers.split_heads(self.k_proj(x), n), layers.split_heads(self.v_proj(x), n), state,
      self.options)
   return self.out_proj(layers.join_heads(y))
end

local MLP = class.class("text.models.CLIPMLP", nn.Module)

function MLP:__init(config)
   self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size)
   self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size)
   self.act = config.hidden_act
end

function MLP:forward(x) return self.fc2(layers.activated(self.fc1, x, self.act)) end

local function norm(config)
   return nn.LayerNorm(config.hidden_size, {eps = config.layer_norm_eps})
end

local Layer = class.class("text.models.CLIPLayer", nn.Module)

function Layer:__init(config)
   self.self_attn, self.layer_norm1 = Attention(config), norm(config)
   self.mlp, self.layer_norm2 = MLP(config), norm(config)
end

function Layer:forward(x, state)
   x = x + self.self_attn(self.layer_norm1(x), state)
   return x + self.mlp(self.layer_norm2(x))
end

local Encoder = class.class("text.models.CLIPEncoder", nn.Module)

function Encoder:__init(config)
   self.layers = layers.list(config.num_hidden_layers, function() return Layer(config) end)
end

function Encoder:forward(x, state)
   for _, layer in ipairs(self.layers) do x = layer(x, state) end
   return x
end

-- Texts -----------------------------------------------------------------------------------------

local TextEmbeddings = class.class("text.models.CLIPTextEmbeddings", nn.Module)

function TextEmbeddings:__init(config)
   self.token_embedding = nn.Embedding(config.vocab_size, config.hidden_size)
   self.position_embedding = nn.Embedding(config.max_position_embeddings, config.hidden_size)
   self.most = config.max_position_embeddings
end

function TextEmbeddings:forward(ids, positions)
   if not positions and ids:size(2) > self.most then
      args.refuse("text.CLIP", "input_ids", ("at most %d tokens (max_position_embeddings)"):format(
         self.most), ids)
   end
   return self.token_embedding(ids) + (positions and self.position_embedding(positions)
      or self.position_embedding.weight:narrow(1, 1, ids:size(2)))
end

local TextModel = class.class("text.models.CLIPTextModel", nn.Module)

function TextModel:__init(config, is_siglip)
   self.config, self.is_siglip = config, is_siglip
   self.embeddings, self.encoder = TextEmbeddings(config), Encoder(config)
   self.final_layer_norm = norm(config)
   if is_siglip then
      self.head = nn.Linear(config.hidden_size, config.projection_size or config.hidden_size)
   end
end

-- Returns the features of each text. CLIP takes them from the text's end token, and SigLIP from the
-- last position.
function TextModel:forward(a)
   local ids, eos = a.input_ids, self.config.eos_token_id
   local n = ids:size(2)
   local padding = masks.padding("text.CLIP", a.attention_mask, ids:size(1), n)
   local mask, is_causal = masks.encoder(padding), false
   if not self.is_siglip then mask, is_causal = masks.causal(n, n, padding, nil, ids.device) end
   local x = self.encoder(self.embeddings(ids, a.position_ids),
      {mask = mask, is_causal = is_causal})
   x = self.final_layer_norm(x)
   if self.is_siglip then return self.head(x:select(2, -1)) end
   local rows = torch.arange(1, ids:size(1) + 1, {dtype = "int64", device = ids.device})
   -- Older configurations have the wrong end token 2. With them, the token with the largest number
   -- is the end.
   local at = eos == 2 and ids:argmax(2) or ids:eq(eos + 1):long():argmax(2)
   return x[{rows, at}]
end

-- Images ----------------------------------------------------------------------------------------

local VisionEmbeddings = class.class("text.models.CLIPVisionEmbeddings", nn.Module)

function VisionEmbeddings:__init(config, is_siglip)
   local size, patch = config.hidden_size, config.patch_size
   local count = (config.image_size // patch) * (config.image_size // patch)
   self.config = config
   if not is_siglip then
      self.class_embedding, count = nn.Parameter(torch.randn(size) * 0.02), count + 1
   end
   self.patch_embedding = nn.Conv2d(config.num_channels, size, patch,
      {stride = patch, bias = is_siglip})
   self.position_embedding = nn.Embedding(count, size)
end

function VisionEmbeddings:forward(images)
   local size, channels = self.config.image_size, self.config.num_channels
   if images:dim() ~= 4 or images:size(2) ~= channels or images:size(3) ~= size
         or images:size(4) ~= size then
      args.refuse("text.CLIP", "pixel_values", ("images of shape (N, %d, %d, %d)"):format(channels,
         size, size), images)
   end
   local x = self.patch_embedding(images):flatten(3):transpose(2, 3)
   local own = rawget(self, "class_embedding")
   if own then x = torch.cat({own:expand(x:size(1), 1, -1), x}, 2) end
   return x + self.position_embedding.weight
end

-- SigLIP's pooling of an image: a learnt query attends to all patches.
local PoolingHead = class.class("text.models.SiglipHead", nn.Module)

function PoolingHead:__init(config)
   self.probe = nn.Parameter(torch.randn(1, 1, config.hidden_size) * 0.02)
   self.attention = nn.MultiheadAttention(config.hidden_size, config.num_attention_heads,
      {batch_first = true})
   self.layernorm, self.mlp = norm(config), MLP(config)
end

function PoolingHead:forward(x)
   local probe = self.probe:expand(x:size(1), -1, -1)
   local y = self.attention(probe, x, x, {need_weights = false})
   return (y + self.mlp(self.layernorm(y))):select(2, 1)
end

local VisionModel = class.class("text.models.CLIPVisionModel", nn.Module)

function VisionModel:__init(config, is_siglip)
   self.embeddings = VisionEmbeddings(config, is_siglip)
   if not is_siglip then self.pre_layrnorm = norm(config) end -- files have this misspelt name
   self.encoder, self.post_layernorm = Encoder(config), norm(config)
   if is_siglip then self.head = PoolingHead(config) end
end

function VisionModel:forward(images)
   local x = self.embeddings(images)
   local head = rawget(self, "head")
   if not head then x = self.pre_layrnorm(x) end
   x = self.encoder(x, {})
   if head then return head(self.post_layernorm(x)) end
   return self.post_layernorm(x:select(2, 1))
end

-- The models ------------------------------------------------------------------------------------

local function over(list, changes)
   local copy = {}
   for _, own in ipairs {list, changes} do
      for key, value in pairs(own) do copy[key] = value end
   end
   return copy
end

local shared = {
   num_hidden_layers = 12, layer_norm_eps = 1e-5, attention_dropout = 0, hidden_act = "quick_gelu",
}
local text = over(shared, {
   vocab_size = 49408, hidden_size = 512, intermediate_size = 2048, num_attention_heads = 8,
   max_position_embeddings = 77, eos_token_id = 49407,
})
local vision = over(shared, {
   hidden_size = 768, intermediate_size = 3072, num_attention_heads = 12, num_channels = 3,
   image_size = 224, patch_size = 32,
})
local sigmoid = {layer_norm_eps = 1e-6, hidden_act = "gelu_pytorch_tanh"}

-- Returns a function that completes the configurations of the text encoder and the image encoder.
local function finish(title, parts)
   return function(config)
      for name, defaults in pairs(parts) do
         config[name] = configs.complete({title = title .. ": " .. name, defaults = defaults},
            config[name] or {})
         configs.check_multiple(title .. ": " .. name, config[name], "hidden_size",
            "num_attention_heads")
      end
      configs.check_multiple(title, config.vision_config, "image_size", "patch_size")
   end
end

-- Adds the methods that CLIP and SigLIP share to the class `cls`.
local function with_features(cls)
   cls.inputs = "both"
   local title = cls.__name .. ".get_text_features"
   local take_text = args.signature(title .. "(input_ids: tensor, attention_mask: tensor?)")
   local take_image = args.signature(cls.__name .. ".get_image_features(pixel_values: tensor)")
   --- Returns the embeddings of texts, which are not normalised.
   ---@param input_ids Tensor  (B, S)
   ---@param options? {attention_mask: Tensor}  attention_mask: (B, S) with 0 for padding
   ---@return Tensor  (B, D)
   function cls:get_text_features(...)
      local a = take_text(...)
      if a.input_ids:dim() ~= 2 or a.input_ids:numel() == 0 then
         args.refuse(title, "input_ids", "token numbers of shape (batch, length)", a.input_ids)
      end
      local x = self.text_model(a)
      local projection = rawget(self, "text_projection")
      return projection and projection(x) or x
   end
   --- Returns the embeddings of images, which are not normalised.
   ---@param pixel_values Tensor  (B, C, H, W)
   ---@return Tensor  (B, D)
   function cls:get_image_features(...)
      local x = self.vision_model(take_image(...).pixel_values)
      local projection = rawget(self, "visual_projection")
      return projection and projection(x) or x
   end
   function cls:compute(a)
      if not (a.input_ids and a.pixel_values) then
         args.refuse(torch.type(self), a.input_ids and "pixel_values" or "input_ids",
            "texts and images", nil)
      end
      local x = self.text_model(a)
      local projection = rawget(self, "text_projection")
      local texts = projection and projection(x) or x
      local images = self:get_image_features(a.pixel_values)
      texts = texts / texts:norm(2, -1, true)
      images = images / images:norm(2, -1, true)
      local logits = texts:matmul(images:t()) * self.logit_scale:exp()
      local bias = rawget(self, "logit_bias")
      if bias then logits = logits + bias end
      return {
         logits_per_text = logits, logits_per_image = logits:t(), text_embeds = texts,
         image_embeds = images, loss = a.return_loss and self:compare(logits) or nil,
      }
   end
end

local clip = define.family {
   model_type = "clip", name = "CLIP", prefix = "clip",
   defaults = {projection_dim = 512, logit_scale_init_value = 2.6592},
   finish = finish("text.CLIP", {text_config = text, vision_config = vision}),
}

local CLIP = clip:class "Model"

function CLIP:build(config)
   local plain = {bias = false}
   self.logit_scale = nn.Parameter(torch.tensor(config.logit_scale_init_value))
   self.text_model = TextModel(config.text_config, false)
   self.vision_model = VisionModel(config.vision_config, false)
   local size = config.projection_dim
   self.visual_projection = nn.Linear(config.vision_config.hidden_size, size, plain)
   self.text_projection = nn.Linear(config.text_config.hidden_size, size, plain)
end

-- Returns the mean of two cross-entropies: from texts to images, and from images to texts. Text i
-- belongs to image i.
function CLIP.compare(_, logits)
   local own = torch.arange(1, logits:size(1) + 1, {dtype = "int64", device = logits.device})
   return (F.cross_entropy(logits, own) + F.cross_entropy(logits:t(), own)) / 2
end

local siglip = define.family {
   model_type = "siglip", name = "Siglip", prefix = "siglip", defaults = {},
   finish = finish("text.Siglip", {
      text_config = over(over(text, sigmoid), {
         vocab_size = 32000, hidden_size = 768, intermediate_size = 3072, num_attention_heads = 12,
         max_position_embeddings = 64,
      }),
      vision_config = over(over(vision, sigmoid), {patch_size = 16}),
   }),
}

local Siglip = siglip:class "Model"

function Siglip:build(config)
   self.text_model = TextModel(config.text_config, true)
   self.vision_model = VisionModel(config.vision_config, true)
   self.logit_scale = nn.Parameter(torch.zeros(1))
   self.logit_bias = nn.Parameter(torch.zeros(1))
end

-- Returns the loss of a binary classification of each pair of a text and an image. Only the pairs
-- (i, i) belong together.
function Siglip.compare(_, logits)
   local sign = torch.eye(logits:size(1), {device = logits.device}) * 2 - 1
   return -F.logsigmoid(sign * logits):sum(-1):mean()
end

with_features(CLIP)
with_features(Siglip)

return define.by_type(clip, siglip)
