-- init.lua - torch.vision.models: builders of models with torchvision's names, and functions that
-- find builders. A builder creates a model with random weights. With `weights = "file"` the model
-- has the weights of a state dict that torchvision has saved, and with `weights = "DEFAULT"` those
-- that torchvision publishes, whose file must be in the folder of torch.hub.

local torch = require "tlua"
local args = require "tlua.args"
local lazy = require "tlua.lazy"
local define = require "tlua.vision.models.define"
local published = require "tlua.vision.models.weights"
local suggest = require "tlua.utils.suggest"

-- The files of this folder, with the names of the builders that each file defines.
local builders = lazy.modules("tlua.vision.models", {
   alexnet = "alexnet",
   vgg = "vgg11 vgg11_bn vgg13 vgg13_bn vgg16 vgg16_bn vgg19 vgg19_bn",
   resnet = [[resnet18 resnet34 resnet50 resnet101 resnet152 resnext50_32x4d resnext101_32x8d
      resnext101_64x4d wide_resnet50_2 wide_resnet101_2]],
   densenet = "densenet121 densenet161 densenet169 densenet201",
   inception = "googlenet inception_v3",
   squeezenet = "squeezenet1_0 squeezenet1_1",
   shufflenet = "shufflenet_v2_x0_5 shufflenet_v2_x1_0 shufflenet_v2_x1_5 shufflenet_v2_x2_0",
   mobilenet = "mobilenet_v2 mobilenet_v3_large mobilenet_v3_small",
   mnasnet = "mnasnet0_5 mnasnet0_75 mnasnet1_0 mnasnet1_3",
   efficientnet = [[efficientnet_b0 efficientnet_b1 efficientnet_b2 efficientnet_b3 efficientnet_b4
      efficientnet_b5 efficientnet_b6 efficientnet_b7 efficientnet_v2_s efficientnet_v2_m
      efficientnet_v2_l]],
   regnet = [[regnet_y_400mf regnet_y_800mf regnet_y_1_6gf regnet_y_3_2gf regnet_y_8gf
      regnet_y_16gf regnet_y_32gf regnet_y_128gf regnet_x_400mf regnet_x_800mf regnet_x_1_6gf
      regnet_x_3_2gf regnet_x_8gf regnet_x_16gf regnet_x_32gf]],
   convnext = "convnext_tiny convnext_small convnext_base convnext_large",
   vit = "vit_b_16 vit_b_32 vit_l_16 vit_l_32 vit_h_14",
   swin = "swin_t swin_s swin_b swin_v2_t swin_v2_s swin_v2_b",
   maxvit = "maxvit_t",
})

-- The names of the models for each task other than classification.
local tasks <const> = {
   segmentation = [[fcn_resnet50 fcn_resnet101 deeplabv3_resnet50 deeplabv3_resnet101
      deeplabv3_mobilenet_v3_large lraspp_mobilenet_v3_large]],
   detection = [[fasterrcnn_resnet50_fpn fasterrcnn_resnet50_fpn_v2
      fasterrcnn_mobilenet_v3_large_fpn fasterrcnn_mobilenet_v3_large_320_fpn
      maskrcnn_resnet50_fpn maskrcnn_resnet50_fpn_v2 keypointrcnn_resnet50_fpn
      retinanet_resnet50_fpn retinanet_resnet50_fpn_v2 fcos_resnet50_fpn ssd300_vgg16
      ssdlite320_mobilenet_v3_large]],
   video = "r3d_18 mc3_18 r2plus1d_18 s3d mvit_v1_b mvit_v2_s swin3d_t swin3d_s swin3d_b",
   optical_flow = "raft_large raft_small",
}

-- `names` has the names of all models in alphabetical order. `places` maps a name to the model's
-- task, which is "" for classification.
local names, places = {}, {}

local M = {}

for name in pairs(builders) do names[#names + 1], places[name] = name, "" end
for task, list in pairs(tasks) do
   builders[task] = "tlua.vision.models." .. task
   for name in list:gmatch "%S+" do
      names[#names + 1], places[name] = name, task
   end
end
table.sort(names)

builders.IntermediateLayerGetter = "tlua.vision.models.backbones"
for _, name in ipairs(published.names "") do builders[name] = "tlua.vision.models.weights" end

-- Converts a name in which * stands for any characters to a Lua pattern.
local function pattern_of(glob)
   return "^" .. glob:gsub("[%-%.%+%[%]%(%)%$%^%%%?]", "%%%0"):gsub("%*", ".*") .. "$"
end

local function matches(name, globs)
   for _, glob in ipairs(type(globs) == "table" and globs or {globs}) do
      if name:find(pattern_of(glob)) then return true end
   end
   return false
end

local take_list = args.signature [[vision.models.list_models(module: table?,
   include: string|table?, exclude: string|table?)]]

-- Returns the task of the models in a table such as torch.vision.models.video.
local function task_of(module)
   if module == M then return "" end
   for task in pairs(tasks) do
      if rawget(M, task) == module then return task end
   end
   args.refuse("vision.models.list_models", "module", "torch.vision.models or one of its tables",
      module)
end

--- Returns the names of all models in alphabetical order. In the options, * stands for any
--- characters of a name.
---
---     local names = torch.vision.models.list_models {include = "vit_b*"}
---     print(table.concat(names, " "))
---     --> vit_b_16 vit_b_32
---@param module? table  only models of this table, such as torch.vision.models.video; for
--- torch.vision.models, only models that classify images
---@param options? {include: string|string[], exclude: string|string[]}  include: only names that
--- match one of these; exclude: no names that match one of these
---@return string[]
function M.list_models(...)
   local a, list = take_list(...), {}
   for _, option in ipairs {"include", "exclude"} do
      for _, glob in ipairs(type(a[option]) == "table" and a[option] or {}) do
         if type(glob) ~= "string" then
            args.refuse("vision.models.list_models", option, "names", a[option])
         end
      end
   end
   local task = a.module and task_of(a.module)
   for _, name in ipairs(names) do
      if (not task or places[name] == task) and (not a.include or matches(name, a.include))
            and not (a.exclude and matches(name, a.exclude)) then
         list[#list + 1] = name
      end
   end
   return list
end

local function find(title, name)
   if type(name) ~= "string" then args.refuse(title, "name", "a model's name", name) end
   local key = name:lower()
   if not places[key] then
      torch.raise(("%s: there is no model %q%s"):format(title, name, suggest.hint(key, names)))
   end
   local place = places[key]
   return (place == "" and M or M[place])[key]
end

--- Returns the builder of the model with the given name.
---
---     local build = torch.vision.models.get_model_builder "resnet18"
---     print(build == torch.vision.models.resnet18)
---     --> true
---@param name string
---@return fun(options?: table): nn.Module
function M.get_model_builder(name)
   return find("vision.models.get_model_builder", name)
end

--- Builds a model by its name, with the options of its builder.
---
---     local models = torch.vision.models
---     local model = models.get_model("squeezenet1_1", {num_classes = 2})
---     print(table.unpack(model(torch.zeros(1, 3, 32, 32)).shape))
---     --> 1	2
---@param name string
---@param options? table
---@return nn.Module
function M.get_model(name, options)
   return find("vision.models.get_model", name)(options)
end

--- Returns the set of weights that torchvision publishes for a model. Its fields are weights with
--- their names, `DEFAULT` for the best ones, and the list of all. Weights have `url`, `meta` with
--- `categories`, the names of the classes, `transforms()`, which prepares images, and
--- `get_state_dict()`. No file is fetched; see the README.
---
---     local set = torch.vision.models.get_model_weights "resnet50"
---     print(set, #set, set.DEFAULT)
---     print(set.DEFAULT.meta.categories[1], #set.DEFAULT.meta.categories)
---     --> ResNet50_Weights	2	ResNet50_Weights.IMAGENET1K_V2
---     --> tench	1000
---@param name string|function  a model's name or its builder
---@return table
function M.get_model_weights(name)
   local title <const> = "vision.models.get_model_weights"
   local of_builder = define.name_of(name)
   if not of_builder then find(title, name) end
   return published.of_model(of_builder or name:lower())
end

--- Returns weights by their full name.
---
---     local models = torch.vision.models
---     print(models.get_weight("ResNet50_Weights.IMAGENET1K_V2").url)
---     --> https://download.pytorch.org/models/resnet50-11ad3fa6.pth
---@param name string
---@return table
function M.get_weight(name)
   local title <const> = "vision.models.get_weight"
   local set, own = (type(name) == "string" and name or ""):match "^([%w_]+)%.([%w_]+)$"
   if not set then args.refuse(title, "name", "a name such as ResNet50_Weights.DEFAULT", name) end
   local found = published.set(set)
   if not found then
      torch.raise(("%s: there is no %s%s"):format(title, set, suggest.hint(set, published.sets())))
   end
   return found[own]
end

return lazy.load(M, builders)
