-- weights.lua - the weights that torchvision publishes, as objects such as
-- models.ResNet50_Weights.IMAGENET1K_V2. They know the file's URL, the transform of images, and the
-- names of classes. Files are not fetched: they are looked up in the folders of torch.hub and of
-- PyTorch.

local torch = require "tlua"
local args = require "tlua.args"
local lazy = require "tlua.lazy"
local suggest = require "tlua.utils.suggest"
local rows = require "tlua.vision.models.weights_rows"

local M = {}

-- Files -------------------------------------------------------------------------------------------

local function variable(name)
   local value = os.getenv(name)
   return value ~= "" and value or nil
end

-- Returns the folders that may have a file of weights: that of torch.hub and that of PyTorch.
local function folders()
   local cache = variable "XDG_CACHE_HOME" or (variable "HOME" or ".") .. "/.cache"
   local list = {(variable "TORCH_HOME" or cache .. "/torch") .. "/hub/checkpoints"}
   if lazy.is_there "tlua.hub" then
      table.insert(list, 1, torch.hub.get_dir() .. "/checkpoints")
   end
   return list
end

-- Returns the path of the file of weights. The file may also be in the safetensors format.
local function path_of(title, weights)
   local name, list = weights.url:match "[^/]+$", folders()
   for _, folder in ipairs(list) do
      for _, ending in ipairs {"pth", "safetensors"} do
         local path = folder .. "/" .. name:gsub("pth$", ending)
         local file = io.open(path, "rb")
         if file then
            file:close()
            return path
         end
      end
   end
   torch.raise(("%s: weights: the file of %s is missing: download %s, and put it into %s"):format(
      title, tostring(weights), weights.url, table.concat(list, " or ")))
end

-- Weights -----------------------------------------------------------------------------------------

local categories <const> = {[""] = "imagenet", segmentation = "voc", detection = "coco",
   video = "kinetics"}
local presets <const> = {[""] = "ImageClassification", segmentation = "SemanticSegmentation",
   detection = "ObjectDetection", video = "VideoClassification", optical_flow = "OpticalFlow"}

local methods, meta = {}, {__name = "vision.models.Weights"}

function meta.__tostring(self) return rawget(self, "enum") .. "." .. rawget(self, "name") end

-- Creates the field `meta`, the facts about weights, when it is first used.
function meta.__index(self, key)
   if key ~= "meta" then return methods[key] end
   local row, lists = rawget(self, "row"), require "tlua.vision.models.categories"
   local is_keypoints = row.model:find "^keypointrcnn" ~= nil
   local list = is_keypoints and "person" or not row.unlabelled and categories[row.task]
   local side = tonumber(row.min or 1)
   self.meta = {
      num_params = math.tointeger(row.params), min_size = {side, side},
      min_temporal_size = math.tointeger(row.frames), categories = list and lists[list] or nil,
      keypoint_names = is_keypoints and lists.keypoints or nil,
      license = self.name:find "_SWAG_" and "https://github.com/facebookresearch/SWAG/blob/main/"
         .. "LICENSE" or nil,
   }
   return self.meta
end

-- Returns the state dict of the weights' file, whose names count from 0.
function methods:get_state_dict()
   return torch.load(path_of(tostring(self) .. ":get_state_dict", self))
end

local function numbers(text)
   if not text then return nil end
   local list = {}
   for number, divisor in text:gmatch "([%d.]+)/?(%d*)" do
      list[#list + 1] = tonumber(number) / (tonumber(divisor) or 1)
   end
   return list
end

-- Returns the options of a transform from the words of its row.
local function transform_options(row)
   local mean, std = numbers(row.mean), numbers(row.std)
   if row.imagenet then mean, std = {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225} end
   if mean and #mean == 1 then mean = {mean[1], mean[1], mean[1]} end
   if std and #std == 1 then std = {std[1], std[1], std[1]} end
   local crop, resize = tonumber(row.crop), {}
   for size in (row.resize or ""):gmatch "%d+" do resize[#resize + 1] = tonumber(size) end
   return {crop_size = crop and row.task == "video" and {crop, crop} or crop,
      resize_size = resize[1] and resize or nil, mean = mean, std = std,
      interpolation = row.bicubic and "bicubic" or nil}
end

local function new_weights(enum, row)
   local weights = {enum = enum, name = row.name, row = row,
      url = "https://download.pytorch.org/models/" .. row.file .. ".pth"}
   function weights.transforms(options, more)
      if options == weights then options = more end -- the call was weights:transforms(more)
      local all = transform_options(row)
      if options ~= nil then
         if type(options) ~= "table" or getmetatable(options) then
            args.refuse(tostring(weights) .. ".transforms", "options", "a table", options)
         end
         for key, value in pairs(options) do all[key] = value end
      end
      return require "tlua.vision.transforms.presets"[presets[row.task]](all)
   end
   return setmetatable(weights, meta)
end

-- Sets of weights ---------------------------------------------------------------------------------

-- `sets` maps names such as "ResNet18_Weights" to sets of weights, and `of_model` maps a model's
-- name to its set.
local sets, of_model, set_meta = {}, {}, {__name = "vision.models.WeightsEnum"}

function set_meta.__tostring(self) return rawget(self, "_name") end

local function names_of(set)
   local names = {"DEFAULT"}
   for _, weights in ipairs(set) do names[#names + 1] = weights.name end
   return names
end

function set_meta.__index(self, key)
   if math.type(key) == "integer" then return nil end -- for ipairs
   torch.raise(("vision.models.%s: there is no %s%s; it has %s"):format(tostring(self),
      args.describe(key), type(key) == "string" and suggest.hint(key, names_of(self)) or "",
      table.concat(names_of(self), ", ")))
end

-- Creates the set of weights of a model. Its fields are the weights by their names, DEFAULT, and
-- the list of all.
local function new_set(name)
   local set = setmetatable({_name = name}, set_meta)
   function set.verify(value)
      if value == nil then return nil end
      return M.resolve("vision.models." .. name .. ".verify", set, value)
         or torch.raise(("vision.models.%s.verify: expected %s, got %s"):format(name,
            table.concat(names_of(set), ", "), args.describe(value)))
   end
   return set
end

-- Adds the words of a line, such as "crop=224" and "bicubic", to a row.
local function add_words(row, words)
   for word in words:gmatch "%S+" do
      local key, value = word:match "^(.-)=(.*)$"
      row[key or word] = value or true
   end
   return row
end

-- Adds the weights of the models for one task.
local function add_task(task, text)
   local shared, set
   for line in text:gmatch "[^\n]+" do
      local model, enum, words = line:match "^(%S+) (%S+) ?(.*)$"
      if line:find "^    " then
         add_words(set[#set].row, line)
      elseif model then
         set = new_set(enum .. "_Weights")
         sets[set._name], of_model[model] = set, set
         shared = add_words({model = model, task = task}, words)
      else
         local name, star, file, own = line:match "^  ([%w_]+)(%*?) (%S+) ?(.*)$"
         local row = {name = name, file = file}
         for key, value in pairs(shared) do row[key] = value end
         local weights = new_weights(set._name, add_words(row, own))
         rawset(set, name, weights)
         rawset(set, #set + 1, weights)
         if star == "*" or rawget(set, "DEFAULT") == nil then rawset(set, "DEFAULT", weights) end
      end
   end
end

for task, text in pairs(rows) do
   add_task(task == "classification" and "" or task, text)
end

--- The weights that torchvision publishes for a model, by their names, and DEFAULT, the best ones.
--- The list part has all of them; see get_model_weights.
---
---     local set = torch.vision.models.ResNet50_Weights
---     local weights = set.DEFAULT
---     print(weights, #set, weights.meta.num_params)
---     print(weights.transforms().crop_size[1])
---     --> ResNet50_Weights.IMAGENET1K_V2	2	25557032
---     --> 224
---@names vision.models.AlexNet_Weights vision.models.ConvNeXt_Base_Weights
---@names vision.models.ConvNeXt_Large_Weights vision.models.ConvNeXt_Small_Weights
---@names vision.models.ConvNeXt_Tiny_Weights vision.models.DenseNet121_Weights
---@names vision.models.DenseNet161_Weights vision.models.DenseNet169_Weights
---@names vision.models.DenseNet201_Weights vision.models.EfficientNet_B0_Weights
---@names vision.models.EfficientNet_B1_Weights vision.models.EfficientNet_B2_Weights
---@names vision.models.EfficientNet_B3_Weights vision.models.EfficientNet_B4_Weights
---@names vision.models.EfficientNet_B5_Weights vision.models.EfficientNet_B6_Weights
---@names vision.models.EfficientNet_B7_Weights vision.models.EfficientNet_V2_L_Weights
---@names vision.models.EfficientNet_V2_M_Weights vision.models.EfficientNet_V2_S_Weights
---@names vision.models.GoogLeNet_Weights vision.models.Inception_V3_Weights
---@names vision.models.MNASNet0_5_Weights vision.models.MNASNet0_75_Weights
---@names vision.models.MNASNet1_0_Weights vision.models.MNASNet1_3_Weights
---@names vision.models.MaxVit_T_Weights vision.models.MobileNet_V2_Weights
---@names vision.models.MobileNet_V3_Large_Weights vision.models.MobileNet_V3_Small_Weights
---@names vision.models.RegNet_X_16GF_Weights vision.models.RegNet_X_1_6GF_Weights
---@names vision.models.RegNet_X_32GF_Weights vision.models.RegNet_X_3_2GF_Weights
---@names vision.models.RegNet_X_400MF_Weights vision.models.RegNet_X_800MF_Weights
---@names vision.models.RegNet_X_8GF_Weights vision.models.RegNet_Y_128GF_Weights
---@names vision.models.RegNet_Y_16GF_Weights vision.models.RegNet_Y_1_6GF_Weights
---@names vision.models.RegNet_Y_32GF_Weights vision.models.RegNet_Y_3_2GF_Weights
---@names vision.models.RegNet_Y_400MF_Weights vision.models.RegNet_Y_800MF_Weights
---@names vision.models.RegNet_Y_8GF_Weights vision.models.ResNeXt101_32X8D_Weights
---@names vision.models.ResNeXt101_64X4D_Weights vision.models.ResNeXt50_32X4D_Weights
---@names vision.models.ResNet101_Weights vision.models.ResNet152_Weights
---@names vision.models.ResNet18_Weights vision.models.ResNet34_Weights
---@names vision.models.ResNet50_Weights vision.models.ShuffleNet_V2_X0_5_Weights
---@names vision.models.ShuffleNet_V2_X1_0_Weights vision.models.ShuffleNet_V2_X1_5_Weights
---@names vision.models.ShuffleNet_V2_X2_0_Weights vision.models.SqueezeNet1_0_Weights
---@names vision.models.SqueezeNet1_1_Weights vision.models.Swin_B_Weights
---@names vision.models.Swin_S_Weights vision.models.Swin_T_Weights vision.models.Swin_V2_B_Weights
---@names vision.models.Swin_V2_S_Weights vision.models.Swin_V2_T_Weights
---@names vision.models.VGG11_BN_Weights vision.models.VGG11_Weights vision.models.VGG13_BN_Weights
---@names vision.models.VGG13_Weights vision.models.VGG16_BN_Weights vision.models.VGG16_Weights
---@names vision.models.VGG19_BN_Weights vision.models.VGG19_Weights vision.models.ViT_B_16_Weights
---@names vision.models.ViT_B_32_Weights vision.models.ViT_H_14_Weights
---@names vision.models.ViT_L_16_Weights vision.models.ViT_L_32_Weights
---@names vision.models.Wide_ResNet101_2_Weights vision.models.Wide_ResNet50_2_Weights
---@names vision.models.segmentation.DeepLabV3_MobileNet_V3_Large_Weights
---@names vision.models.segmentation.DeepLabV3_ResNet101_Weights
---@names vision.models.segmentation.DeepLabV3_ResNet50_Weights
---@names vision.models.segmentation.FCN_ResNet101_Weights
---@names vision.models.segmentation.FCN_ResNet50_Weights
---@names vision.models.segmentation.LRASPP_MobileNet_V3_Large_Weights
---@names vision.models.detection.FCOS_ResNet50_FPN_Weights
---@names vision.models.detection.FasterRCNN_MobileNet_V3_Large_320_FPN_Weights
---@names vision.models.detection.FasterRCNN_MobileNet_V3_Large_FPN_Weights
---@names vision.models.detection.FasterRCNN_ResNet50_FPN_V2_Weights
---@names vision.models.detection.FasterRCNN_ResNet50_FPN_Weights
---@names vision.models.detection.KeypointRCNN_ResNet50_FPN_Weights
---@names vision.models.detection.MaskRCNN_ResNet50_FPN_V2_Weights
---@names vision.models.detection.MaskRCNN_ResNet50_FPN_Weights
---@names vision.models.detection.RetinaNet_ResNet50_FPN_V2_Weights
---@names vision.models.detection.RetinaNet_ResNet50_FPN_Weights
---@names vision.models.detection.SSD300_VGG16_Weights
---@names vision.models.detection.SSDLite320_MobileNet_V3_Large_Weights
---@names vision.models.video.MC3_18_Weights vision.models.video.MViT_V1_B_Weights
---@names vision.models.video.MViT_V2_S_Weights vision.models.video.R2Plus1D_18_Weights
---@names vision.models.video.R3D_18_Weights vision.models.video.S3D_Weights
---@names vision.models.video.Swin3D_B_Weights vision.models.video.Swin3D_S_Weights
---@names vision.models.video.Swin3D_T_Weights vision.models.optical_flow.Raft_Large_Weights
---@names vision.models.optical_flow.Raft_Small_Weights
---@type table<string, table>
for name, set in pairs(sets) do M[name] = set end

-- Functions ---------------------------------------------------------------------------------------

--- Returns the set of weights of a model, or nil.
---@param model string
---@return table?
function M.of_model(model) return of_model[model] end

--- Returns the set of weights with a name such as "ResNet18_Weights", or nil.
---@param name string
---@return table?
function M.set(name) return sets[name] end

--- Returns the names of all sets of weights.
---@return string[]
function M.sets()
   local names = {}
   for name in pairs(sets) do names[#names + 1] = name end
   return names
end

--- Returns the names of the sets of weights for a task, such as "ResNet18_Weights".
---@param task string
---@return string[]
function M.names(task)
   local names = {}
   for _, set in pairs(of_model) do
      if set[1].row.task == task then names[#names + 1] = set._name end
   end
   return names
end

--- Returns whether a value is one of torchvision's weights.
---@param value any
---@return boolean
function M.is_weights(value) return getmetatable(value) == meta end

--- Returns the weights that `value` stands for: weights, or a name such as "DEFAULT" or
--- "ResNet18_Weights.DEFAULT". Returns nil for other values, which may be a file's path or a state
--- dict. Raises an error for the weights of another model, and for a string that looks like the
--- name of weights and is not a file's path.
---@param title string
---@param set table  the weights of the model
---@param value any
---@return table?
function M.resolve(title, set, value)
   local name = value
   if M.is_weights(value) then
      if rawget(set, value.name) == value then return value end
      name = tostring(value)
   elseif type(value) ~= "string" then
      return nil
   else
      local enum, rest = value:match "^([%w_]+_Weights)%.([%w_]+)$"
      if not enum or enum == set._name then
         local found = rawget(set, rest or value)
         if M.is_weights(found) then return found end
      end
      if not enum and not value:find "^[%u%d_]+_V%d+$" and value ~= "DEFAULT" then return nil end
      local file = io.open(value, "rb")
      if file then
         file:close()
         return nil
      end
   end
   torch.raise(("%s: weights: expected a file's path, a state dict or one of %s: %s; got %s")
      :format(title, set._name, table.concat(names_of(set), ", "), name))
end

--- Sets the options of a model that fit its weights. Raises an error for an option of the program
--- that does not fit.
---@param title string
---@param weights table
---@param given table  the program's options
---@param options table  the options with their defaults
function M.prepare(title, weights, given, options)
   local facts, fixed = weights.meta, {}
   local side = facts.min_size[1]
   fixed.num_classes = options.num_classes and facts.categories and #facts.categories
   if options.image_size then fixed.image_size = side end
   for key, value in pairs(fixed) do
      if given[key] ~= nil and given[key] ~= value then
         torch.raise(("%s: %s: expected %d, as in %s, got %s; load the weights, and replace the "
            .. "model's last layer afterwards"):format(title, key, value, tostring(weights),
            args.describe(given[key])))
      end
      options[key] = value
   end
   if options.transform_input ~= nil and given.transform_input == nil then
      options.transform_input = true
   end
   if weights.row.model == "googlenet" and given.aux_logits == nil then
      options.aux_logits = false
   end
   if options.init_weights ~= nil then options.init_weights = false end
   options.weights, options.weights_backbone = weights, nil
end

--- Returns the state dict of weights for a model with the given options.
---@param title string
---@param weights table
---@param options table
---@return table<string, Tensor>
function M.state(title, weights, options)
   local state = torch.load(path_of(title, weights))
   if options.aux_logits == false then
      for key in pairs(state) do
         if key:find "^aux%d%." or key:find "^AuxLogits%." then state[key] = nil end
      end
   end
   return state
end

return M
