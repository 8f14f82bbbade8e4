-- vit.lua - ViT: a transformer over the patches of an image (Dosovitskiy et al., 2020).

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local define = require "tlua.vision.models.define"
local layers = require "tlua.vision.ops.layers"
local old_names = require "tlua.vision.old_names"

local nn = torch.nn

local function norm(size) return nn.LayerNorm(size, {eps = 1e-6}) end

local EncoderBlock = class.class("vision.models.EncoderBlock", nn.Module)

function EncoderBlock:__init(row, options)
   self.ln_1 = norm(row.hidden)
   self.self_attention = nn.MultiheadAttention(row.hidden, row.heads,
      {dropout = options.attention_dropout, batch_first = true})
   self.dropout, self.ln_2 = nn.Dropout(options.dropout), norm(row.hidden)
   self.mlp = layers.MLP(row.hidden, {row.mlp, row.hidden},
      {activation_layer = nn.GELU, dropout = options.dropout})
   define.initialize(self.mlp, {bias = "keep", linear = function(weight, layer)
      nn.init.xavier_uniform_(weight)
      nn.init.normal_(layer.bias, 0, 1e-6)
   end})
   old_names(self.mlp, {["linear_1.weight"] = "0.weight", ["linear_1.bias"] = "0.bias",
      ["linear_2.weight"] = "3.weight", ["linear_2.bias"] = "3.bias"})
end

function EncoderBlock:forward(input)
   local x = self.ln_1(input)
   x = self.self_attention(x, x, x, {need_weights = false})
   x = self.dropout(x) + input
   return x + self.mlp(self.ln_2(x))
end

local Encoder = class.class("vision.models.Encoder", nn.Module)

function Encoder:__init(length, row, options)
   self.pos_embedding = nn.Parameter(torch.empty(1, length, row.hidden))
   nn.init.normal_(self.pos_embedding, 0, 0.02)
   self.dropout, self.layers = nn.Dropout(options.dropout), nn.Sequential()
   for i = 1, row.layers do
      self.layers:add_module("encoder_layer_" .. i - 1, EncoderBlock(row, options))
   end
   self.ln = norm(row.hidden)
end

function Encoder:forward(input)
   return self.ln(self.layers(self.dropout(input + self.pos_embedding)))
end

local VisionTransformer = class.class("vision.models.VisionTransformer", nn.Module)

function VisionTransformer:__init(options, row, title)
   local size, patch = options.image_size, row.patch
   if size % patch ~= 0 or size < patch then
      args.refuse(title, "image_size", ("a multiple of the patches' %d pixels"):format(patch), size)
   end
   self.image_size, self.hidden, self.title = size, row.hidden, title
   self.conv_proj = nn.Conv2d(3, row.hidden, patch, {stride = patch})
   self.class_token = nn.Parameter(torch.zeros(1, 1, row.hidden))
   self.encoder = Encoder((size // patch) * (size // patch) + 1, row, options)
   self.heads = nn.Sequential()
   local last = row.hidden
   if options.representation_size > 0 then
      last = options.representation_size
      self.heads:add_module("pre_logits", nn.Linear(row.hidden, last))
      self.heads:add_module("act", nn.Tanh())
      define.truncated(row.hidden ^ -0.5)(self.heads.pre_logits.weight)
      nn.init.zeros_(self.heads.pre_logits.bias)
   end
   self.heads:add_module("head", nn.Linear(last, options.num_classes))
   define.truncated((3 * patch * patch) ^ -0.5)(self.conv_proj.weight)
   nn.init.zeros_(self.conv_proj.bias)
   nn.init.zeros_(self.heads.head.weight)
   nn.init.zeros_(self.heads.head.bias)
end

function VisionTransformer:forward(input)
   local size = self.image_size
   if input:dim() ~= 4 or input:size(3) ~= size or input:size(4) ~= size then
      args.refuse(self.title, "input", ("images of %d x %d pixels (option image_size)"):format(size,
         size), input)
   end
   local x = self.conv_proj(input):flatten(3):transpose(2, 3)
   x = torch.cat({self.class_token:expand(x:size(1), -1, -1), x}, 2)
   return self.heads(self.encoder(x):select(2, 1))
end

--- ViT with patches of 14, 16 or 32 pixels, from "An Image is Worth 16x16 Words". Input (N, 3,
--- image_size, image_size); output (N, num_classes).
---
---     local models = torch.vision.models
---     local model = models.vit_b_32 {num_classes = 10, image_size = 64}
---     print(table.unpack(model(torch.zeros(1, 3, 64, 64)).shape))
---     --> 1	10
---@names vision.models.vit_b_16 vision.models.vit_b_32 vision.models.vit_l_16
---@names vision.models.vit_l_32 vision.models.vit_h_14
---@param options? {num_classes: integer, image_size: integer, dropout: number, attention_dropout:
--- number, representation_size: integer, weights: string|table}  num_classes: 1000 by default;
--- image_size: 224 by default; dropout: 0 by default; attention_dropout: 0 by default;
--- representation_size: the size of a layer before the classifier, none by default; weights: a
--- state dict or its file
---@return nn.Module
return define.builders(
   {image_size = 224, dropout = 0.0, attention_dropout = 0.0, representation_size = 0}, {
      vit_b_16 = {patch = 16, layers = 12, heads = 12, hidden = 768, mlp = 3072},
      vit_b_32 = {patch = 32, layers = 12, heads = 12, hidden = 768, mlp = 3072},
      vit_l_16 = {patch = 16, layers = 24, heads = 16, hidden = 1024, mlp = 4096},
      vit_l_32 = {patch = 32, layers = 24, heads = 16, hidden = 1024, mlp = 4096},
      vit_h_14 = {patch = 14, layers = 32, heads = 16, hidden = 1280, mlp = 5120},
   }, VisionTransformer)
