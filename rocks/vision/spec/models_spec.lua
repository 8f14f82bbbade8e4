-- Tests torch.vision.models. The model of each builder must have torchvision's number of parameters, and models with
-- the weights of fixtures/models.py must have torchvision's outputs and gradients.

local torch = require "tlua"
local shell = require "spec.support.shell"

local models = torch.vision.models

local folder <const> = "rocks/vision/spec/fixtures/"

local function message_of(fn) return select(2, pcall(fn)) end

-- Returns the rows of models.csv.
local function rows()
   local list = {}
   for line in io.lines(folder .. "models.csv") do
      local name, count, rest = line:match "^([^,]+),(%d+),?(.*)$"
      if name then
         local row = {name = name, count = math.tointeger(count), outputs = {}}
         local size, o1, o2, o3, o4, gradients = rest:match "^(%d+),(.-),(.-),(.-),(.-),(.-)$"
         if size then
            row.size, row.gradients = math.tointeger(size), tonumber(gradients)
            row.outputs = {tonumber(o1), tonumber(o2), tonumber(o3), tonumber(o4)}
         end
         list[#list + 1] = row
      end
   end
   return list
end

local function wave(shape, phase, scale)
   local n = 1
   for _, size in ipairs(shape) do n = n * size end
   local x = torch.arange(n, {dtype = "float64"})
   return ((x * (1 + phase / 97) + phase):cos() * scale):view(shape)
end

-- Returns a state dict with the weights of fixtures/models.py.
local function state_of(model)
   local state, keys = {}, {}
   for key, value in pairs(model:state_dict {names = "pytorch"}) do
      state[key] = value
      keys[#keys + 1] = key
   end
   table.sort(keys)
   for i, key in ipairs(keys) do
      local value, phase = state[key], i - 1
      local shape = {table.unpack(value.shape)}
      if value:is_floating_point() and not key:find "relative_coords_table$" then
         if key:find "running_var$" then
            state[key] = wave(shape, phase, 1) * 0.5 + 1
         elseif #shape == 1 and key:find "weight$" then
            state[key] = wave(shape, phase, 1) * 0.1 + 1
         else
            local scale = #shape > 1 and (value:numel() / shape[1]) ^ -0.5 or 0.1
            state[key] = wave(shape, phase, scale)
         end
      end
   end
   return state
end

describe("torch.vision.models", function()
   it("builds every model with torchvision's number of parameters", function()
      local seen, listed = {}, models.list_models()
      local previous = torch.get_default_device()
      torch.set_default_device "meta"
      local ok, message = pcall(function()
         for _, row in ipairs(rows()) do
            local count = 0
            for _, p in ipairs(models.get_model(row.name):parameters()) do count = count + p:numel() end
            assert.equal(row.count, count, row.name)
            -- The numbers of other weights are without GoogLeNet's auxiliary classifiers and frozen normalisations, or
            -- with auxiliary classifiers.
            local is_same = row.name == "googlenet" or not models.list_models(models, {include = row.name})[1]
            for _, weights in ipairs(models.get_model_weights(row.name)) do
               is_same = is_same or weights.meta.num_params == count
            end
            assert.is_true(is_same, row.name)
            seen[#seen + 1] = row.name
         end
      end)
      torch.set_default_device(previous)
      if not ok then error(message, 0) end
      for _, name in ipairs(seen) do assert.is_true(#models.list_models {include = name} == 1, name) end
      assert.equal(109, #seen)
      assert.is_true(#listed >= #seen)
   end)

   for _, row in ipairs(rows()) do
      if row.size then
         it("computes outputs and gradients of " .. row.name, function()
            local options = {num_classes = 4}
            if row.name:find "^vit" then options.image_size = row.size end
            if row.name:find "^deeplab" then options.aux_loss = true end
            local frames = ({mc3_18 = 4, swin3d_t = 4, mvit_v2_s = 8})[row.name]
            if row.name:find "^mvit" then options.spatial_size, options.temporal_size = {64, 64}, 8 end
            if row.name:find "^raft" then options = {} end
            local model = models.get_model(row.name, options)
            model:load_state_dict(state_of(model), {names = "pytorch"})
            model:eval()
            local shape = {1, 3, frames or row.size, row.size, frames and row.size}
            local image = wave(shape, 0.3, 1):float()
            local output
            if row.name:find "^raft" then -- the recorded outputs of raft are the means of two flows
               local flows = model(image, image:flip {4}, 2)
               output = torch.cat({flows[1]:mean {3, 4}, flows[2]:mean {3, 4}}, 2)
            else
               output = model(image)
            end
            if type(output) == "table" then -- the recorded outputs of segmentation are means over all pixels
               local maps = output
               output = maps.out:mean {3, 4}
               if maps.aux then output = output + maps.aux:mean {3, 4} end
            end
            for i, expected in ipairs(row.outputs) do
               local difference = math.abs(output[{1, i}]:item() - expected)
               assert.is_true(difference < (frames and 1e-4 or 1e-5), ("%d: %g"):format(i, difference))
            end
            (output * torch.tensor {1, 2, 3, 4}):sum():backward()
            local total = 0
            for _, p in ipairs(model:parameters()) do
               if p.grad then total = total + p.grad:double():abs():sum():item() end
            end
            -- The waves of the input saturate mvit's attention, so mvit's gradients are less exact in float32.
            local limit = row.name:find "^mvit" and 1e-3 or 1e-4
            assert.is_true(math.abs(total / row.gradients - 1) < limit, total / row.gradients)
         end)
      end
   end

   it("returns auxiliary outputs in training mode only", function()
      local model = models.googlenet {num_classes = 3, init_weights = false}
      assert.equal(3, select("#", model(torch.zeros(2, 3, 32, 32))))
      model:eval()
      assert.equal(1, select("#", model(torch.zeros(1, 3, 32, 32))))
      local plain = models.googlenet {num_classes = 3, init_weights = false, aux_logits = false}
      assert.equal(1, select("#", plain(torch.zeros(2, 3, 32, 32))))
   end)

   it("loads the weights of a file", function()
      local path = os.tmpname() .. ".pt"
      local model = models.squeezenet1_1 {num_classes = 2}
      torch.save(model:state_dict {names = "pytorch"}, path)
      local again = models.squeezenet1_1 {num_classes = 2, weights = path}
      os.remove(path)
      assert.is_true(torch.equal(model.features[1].weight, again.features[1].weight))
      assert.is_true(torch.equal(model.classifier[2].weight, again.classifier[2].weight))
   end)

   -- The folder can only be set if the package hub is there.
   local test = require "tlua.packages".has "tlua.hub" and it or pending
   test("loads published weights from the folder of torch.hub", shell.in_folder(function(cache)
      local before = torch.hub.get_dir()
      torch.hub.set_dir(cache)
      local message = message_of(function() models.squeezenet1_1 {weights = "DEFAULT"} end)
      assert.matches("vision.models.squeezenet1_1: weights: the file of "
         .. "SqueezeNet1_1_Weights.IMAGENET1K_V1 is missing: download "
         .. "https://download.pytorch.org/models/squeezenet1_1-b8a52dc0.pth, and put it into " .. cache
         .. "/checkpoints or ", message, 1, true)
      shell.ok("mkdir " .. cache .. "/checkpoints")
      local state = models.squeezenet1_1():state_dict {names = "pytorch"}
      torch.save(state, cache .. "/checkpoints/squeezenet1_1-b8a52dc0.pth")
      local entry = models.SqueezeNet1_1_Weights.IMAGENET1K_V1
      for _, weights in ipairs {entry, "DEFAULT", "IMAGENET1K_V1", "SqueezeNet1_1_Weights.DEFAULT"} do
         local model = models.get_model("squeezenet1_1", {weights = weights})
         assert.is_true(torch.equal(state["features.0.weight"], model.features[1].weight))
      end
      assert.is_true(torch.equal(state["features.0.weight"], entry:get_state_dict()["features.0.weight"]))
      torch.hub.set_dir(before)
      assert.matches("vision.models.squeezenet1_1: num_classes: expected 1000, as in "
         .. "SqueezeNet1_1_Weights.IMAGENET1K_V1, got 10", message_of(function()
            models.squeezenet1_1 {weights = entry, num_classes = 10}
         end), 1, true)
   end))

   it("describes published weights", function()
      local set = models.get_model_weights(models.resnet50)
      assert.is_true(set == models.ResNet50_Weights and set.DEFAULT == set[2] and #set == 2)
      assert.equal("ResNet50_Weights.IMAGENET1K_V2", tostring(set.verify "DEFAULT"))
      local swag = models.get_weight("ViT_L_16_Weights.IMAGENET1K_SWAG_E2E_V1").meta
      assert.same({512, 305174504}, {swag.min_size[1], swag.num_params})
      local names = {}
      for _, name in ipairs {"detection.KeypointRCNN_ResNet50_FPN", "detection.FCOS_ResNet50_FPN",
            "segmentation.LRASPP_MobileNet_V3_Large", "video.S3D", "VGG16"} do
         local task, own = name:match "^(.-)%.?([^.]+)$"
         local list = (task == "" and models or models[task])[own .. "_Weights"].DEFAULT.meta.categories
         names[#names + 1] = ("%d %s"):format(#list, list[#list])
      end
      assert.same({"2 person", "91 toothbrush", "21 tvmonitor", "400 zumba", "1000 toilet tissue"}, names)
      assert.is_nil(models.VGG16_Weights.IMAGENET1K_FEATURES.meta.categories)
      assert.equal(17, #models.detection.KeypointRCNN_ResNet50_FPN_Weights.COCO_LEGACY.meta.keypoint_names)
      assert.raises("vision.models.ResNet50_Weights: there is no \"IMAGENET1K_V4\"",
         function() models.get_weight "ResNet50_Weights.IMAGENET1K_V4" end)
      assert.raises("there is no ResNet51_Weights", function() models.get_weight "ResNet51_Weights.DEFAULT" end)
      assert.raises("name: expected a name such as", function() models.get_weight "DEFAULT" end)
   end)

   it("prepares images as published weights expect", function()
      -- The expected numbers are those of torchvision 0.29 for the same images:
      --    x = torch.arange(0, 240, 5).to(torch.uint8).reshape(3, 4, 4); x = x * x
      --    Swin_T_Weights.DEFAULT.transforms(crop_size=2, resize_size=3)(x)
      --    R3D_18_Weights.DEFAULT.transforms(crop_size=(2, 1), resize_size=(3, 2))(torch.stack([x, x.flip(-1)]))
      local x = torch.arange(0, 240, 5):square():remainder(256):to("uint8"):view(3, 4, 4)
      local swin = models.Swin_T_Weights.DEFAULT.transforms {crop_size = 2, resize_size = 3}
      assert.close(torch.tensor {-1.5014129, -0.9534206, 0.0740646, 0.9131775, -1.9131653, -0.3025210, -1.5105042,
         -1.7906162, -0.8109804, 0.7576472, 0.1824837, -0.7238344}, swin(x):flatten(), 1e-5)
      local r3d = models.video.R3D_18_Weights.DEFAULT.transforms {crop_size = {2, 1}, resize_size = {3, 2}}
      local video = r3d(torch.stack {x, x:flip {3}})
      assert.same({3, 2, 2, 1}, {table.unpack(video.shape)})
      assert.close(torch.tensor {-1.3448660, 0.4780797, 0.9080197, 1.2691692, -1.3217666, -1.3217666, 0.2542985,
         -0.5071710, -0.5782302, 0.1808215, 1.4097625, -0.1444864}, video:flatten(), 1e-5)
      local grey = torch.full({3, 600, 540}, 51, {dtype = "uint8"})
      local fcn = models.segmentation.FCN_ResNet50_Weights.DEFAULT:transforms()(grey)
      assert.same({3, 577, 520}, {table.unpack(fcn.shape)})
      assert.near((0.2 - 0.406) / 0.225, fcn[{3, 300, 300}]:item(), 1e-5)
      assert.near(0.2, models.detection.SSD300_VGG16_Weights.DEFAULT.transforms()(grey):max():item(), 1e-6)
      local one, two = models.optical_flow.Raft_Small_Weights.DEFAULT.transforms()(grey, grey)
      assert.near(-0.6, one:min():item() + two:max():item() + 0.6, 1e-5)
      assert.same({100}, models.Swin_T_Weights.DEFAULT:transforms({crop_size = 100}).crop_size)
      assert.raises("vision.transforms.ImageClassification: unknown option crop; did you mean crop_size?",
         function() models.Swin_T_Weights.DEFAULT.transforms {crop = 3} end)
      assert.raises("image: expected a tensor (..., C, H, W), got 3", function() swin(3) end)
   end)

   it("loads files of torchvision's earlier versions", function()
      -- DenseNet had other names, ViT too, and there were no counts of batches.
      for _, name in ipairs {"densenet121", "vit_b_32"} do
         local device = torch.get_default_device()
         torch.set_default_device "meta"
         local model = models.get_model(name)
         torch.set_default_device(device)
         local old, renamed = {}, 0
         for key, value in pairs(model:state_dict {names = "pytorch"}) do
            local new, n = key:gsub("(denselayer%d+%.%a+)([12]%.)", "%1.%2")
            local newer, m = new:gsub("mlp%.([03])%.", {["0"] = "mlp.linear_1.", ["3"] = "mlp.linear_2."})
            renamed = renamed + n + m
            if not key:find "num_batches_tracked$" then old[newer] = value end
         end
         assert.is_true(renamed > 20, name)
         assert.same({{}, {}}, {model:load_state_dict(old, {names = "pytorch"})})
      end
   end)

   it("keeps the size of stages with dilation", function()
      local model = models.resnet50 {num_classes = 2, replace_stride_with_dilation = {false, true, true}}
      local x = model.maxpool(model.relu(model.bn1(model.conv1(torch.zeros(1, 3, 64, 64)))))
      x = model.layer4(model.layer3(model.layer2(model.layer1(x))))
      assert.same({1, 2048, 8, 8}, {table.unpack(x.shape)})
   end)

   it("gives scores to each pixel, by an auxiliary classifier too", function()
      local make = models.segmentation.deeplabv3_mobilenet_v3_large
      local model = make {num_classes = 3, aux_loss = true}
      local state = model:state_dict {names = "pytorch"}
      model:eval()
      local maps = model(torch.zeros(1, 3, 33, 40))
      assert.same({1, 3, 33, 40}, {table.unpack(maps.out.shape)})
      assert.same({1, 3, 33, 40}, {table.unpack(maps.aux.shape)})
      assert.is_nil(make {num_classes = 3}.aux_classifier)
      assert.is_true(make {num_classes = 3, weights = state}.aux_classifier ~= nil)
   end)

   it("takes the outputs of layers out of a model", function()
      local body = models.IntermediateLayerGetter(models.squeezenet1_1().features, {[3] = "a", [7] = "b"})
      local maps = body(torch.zeros(1, 3, 32, 32))
      assert.equal(64, maps.a:size(2))
      assert.equal(256, maps.b:size(2))
      assert.equal(7, #body:children())
   end)

   it("lists names by patterns", function()
      assert.same({"vit_b_16", "vit_b_32"}, models.list_models {include = "vit_b*"})
      assert.same({"raft_large", "raft_small"}, models.list_models(models.optical_flow))
      assert.same({}, models.list_models {module = models, include = "raft*"})
      assert.raises("module: expected torch.vision.models or one of its tables",
         function() models.list_models(torch.vision.ops) end)
      assert.same({"vgg11", "vgg13", "vgg16", "vgg19"},
         models.list_models {include = {"vgg*"}, exclude = {"*_bn"}})
   end)
end)

it("torch.vision.models take images of the sizes that their comments name", function()
   local function fits(model, ...)
      local shape = {...}
      return (torch.no_grad(function() return pcall(model, torch.zeros(1, 3, table.unpack(shape))) end))
   end
   for name, side in pairs {alexnet = 63, squeezenet1_0 = 21, squeezenet1_1 = 17, densenet121 = 29,
      convnext_tiny = 32} do
      local model = models[name] {num_classes = 2}:eval()
      assert.is_true(fits(model, side, side), name)
      assert.is_false(fits(model, side - 1, side - 1), name)
   end
end)

describe("errors of torch.vision.models", function()
   it("name an unknown model and the nearest one", function()
      assert.matches('models_spec.lua:%d+: vision.models.get_model: there is no model "resnet51"; did you mean '
         .. 'resnet50%?', message_of(function() models.get_model "resnet51" end))
      assert.matches("Did you mean torch.vision.models.resnet18%?", message_of(function() return models.resnet81 end))
      assert.matches("name: expected a model's name, got 3", message_of(function() models.get_model(3) end))
   end)

   it("name images and videos of other sizes", function()
      local flow = models.optical_flow.raft_small()
      local image = torch.zeros(1, 3, 128, 128)
      assert.matches("vision.models.optical_flow.RAFT: image2: expected images %(N, 3, H, W%) of one size, whose sides "
         .. "are multiples of 8 and at least 128, got a float32 tensor of shape %(1, 3, 128, 136%)",
         message_of(function() flow(image, torch.zeros(1, 3, 128, 136)) end))
      assert.matches("image1: expected images", message_of(function() flow(torch.zeros(1, 3, 64, 64)) end))
      assert.matches("num_flow_updates: expected an integer of at least 1, got 0",
         message_of(function() flow(image, image, 0) end))
      local previous = torch.get_default_device()
      torch.set_default_device "meta"
      local video = models.video.mvit_v1_b {spatial_size = {32, 32}, temporal_size = 4}
      torch.set_default_device(previous)
      assert.matches("vision.models.video.MViT: input: expected 4 frames of 32 x 32 pixels, got a float32 tensor",
         message_of(function() video(torch.zeros(1, 3, 8, 32, 32, {device = "meta"})) end))
   end)

   it("name a layer that is not there", function()
      assert.matches("vision.models.IntermediateLayerGetter: return_layers: there is no layer layer5 in "
         .. "vision.models.ResNet",
         message_of(function() models.IntermediateLayerGetter(models.resnet18(), {layer5 = 1}) end))
   end)

   it("name an unknown or wrong option", function()
      assert.matches("vision.models.resnet18: unknown option num_class; did you mean num_classes%?",
         message_of(function() models.resnet18 {num_class = 3} end))
      assert.matches("vision.models.resnet18: num_classes: expected an integer of at least 0, got %-1",
         message_of(function() models.resnet18 {num_classes = -1} end))
      for _, width in ipairs {-1, 0, 0 / 0, math.huge} do
         assert.matches("vision.models.mobilenet_v3_small: width_mult: expected a finite number above 0, got",
            message_of(function() models.mobilenet_v3_small {width_mult = width} end))
      end
      for _, divisor in ipairs {0, -8, 1.5} do
         assert.matches("vision.models.mobilenet_v2: round_nearest: expected an integer of at least 1, got",
            message_of(function() models.mobilenet_v2 {round_nearest = divisor} end))
      end
      assert.matches("vision.models.resnet18: options: expected a table",
         message_of(function() models.resnet18(10) end))
      assert.matches("vision.models.vit_b_16: image_size: expected a multiple of the patches' 16 pixels, got 100",
         message_of(function() models.vit_b_16 {image_size = 100} end))
      assert.matches("vision.models.resnet18: weights: expected a file's path or a table of tensors, got true",
         message_of(function() models.resnet18 {weights = true} end))
   end)

   it("loads a file whose path looks like the name of weights", shell.in_folder(function(place)
      shell.write(place .. "/own_Weights.pth", "")
      -- the path must not name a folder, so a program in this folder reads the file
      shell.write(place .. "/read.lua", [[
         local published = require "tlua.vision.models.weights"
         local set = require "tlua".vision.models.SqueezeNet1_1_Weights
         assert(published.resolve("title", set, "own_Weights.pth") == nil)]])
      shell.ok(("cd %s && %s read.lua"):format(place, shell.start(true)))
   end))

   it("tell what weights may be: published ones or a file, whose names count from 0", function()
      local wanted <const> = "vision.models.squeezenet1_1: weights: expected a file's path, a state dict or one of "
         .. "SqueezeNet1_1_Weights: DEFAULT, IMAGENET1K_V1; got "
      for text, value in pairs {
         COCO_WITH_VOC_LABELS_V1 = "COCO_WITH_VOC_LABELS_V1", ["ResNet18_Weights.DEFAULT"] = "ResNet18_Weights.DEFAULT",
         ["ResNet50_Weights.IMAGENET1K_V2"] = models.ResNet50_Weights.DEFAULT,
      } do
         local message = message_of(function() models.squeezenet1_1 {weights = value} end)
         assert.equal(wanted .. text, message:match "vision%.models.*$")
      end
      assert.matches("vision.models.squeezenet1_1: weights: nowhere.pth: No such file or directory",
         message_of(function() models.squeezenet1_1 {weights = "nowhere.pth"} end), 1, true)
      local own = models.squeezenet1_1 {num_classes = 2}
      assert.matches('vision.models.squeezenet1_1: weights: expected names that count from 0, as PyTorch\'s do, got '
         .. 'those of tlua\'s state_dict(), which count from 1: pass them to model:load_state_dict(state), or save '
         .. 'state_dict {names = "pytorch"}',
         message_of(function() models.squeezenet1_1 {num_classes = 2, weights = own:state_dict()} end), 1, true)
      models.squeezenet1_1 {num_classes = 2, weights = own:state_dict {names = "pytorch"}}
   end)

   it("name a missing key, a wrong shape and wrong channels", function()
      local model = models.squeezenet1_1 {num_classes = 2}
      local state = model:state_dict {names = "pytorch"}
      state["features.0.bias"] = nil
      assert.matches("features.0.bias",
         message_of(function() model:load_state_dict(state, {names = "pytorch"}) end), 1, true)
      state["features.0.bias"] = torch.zeros(63)
      assert.matches("features.0.bias: expected shape (64), got (63)",
         message_of(function() model:load_state_dict(state, {names = "pytorch"}) end), 1, true)
      assert.matches("conv2d: input: expected 3 channels", message_of(function() model(torch.zeros(1, 4, 32, 32)) end))
      assert.matches("expected images of 64 x 64 pixels",
         message_of(function() models.vit_b_32 {image_size = 64}(torch.zeros(1, 3, 32, 32)) end))
      assert.is_false(pcall(function() model(torch.zeros(1, 3, 0, 0)) end))
   end)
end)
