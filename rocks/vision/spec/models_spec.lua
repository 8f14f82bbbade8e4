-- Tests torch.vision.models. The model of each builder must have torchvision's number of parameters, and models with
-- the weights of fixtures/models.py must have torchvision's outputs and gradients.

local torch = require "tlua"

local models = torch.vision.models

local folder <const> = "rocks/vision/spec/fixtures/"

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
      assert.same({"vgg11", "vgg13", "vgg16", "vgg19"},
         models.list_models {include = {"vgg*"}, exclude = {"*_bn"}})
   end)
end)

describe("errors of torch.vision.models", function()
   local function message_of(fn) return select(2, pcall(fn)) end

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
      assert.matches("vision.models.resnet18: options: expected a table",
         message_of(function() models.resnet18(10) end))
      assert.matches("vision.models.vit_b_16: image_size: expected a multiple of the patches' 16 pixels, got 100",
         message_of(function() models.vit_b_16 {image_size = 100} end))
      assert.matches("vision.models.resnet18: weights: expected a file's path or a table of tensors, got true",
         message_of(function() models.resnet18 {weights = true} end))
   end)

   it("tell what weights may be: a file, whose names count from 0", function()
      for _, name in ipairs {"DEFAULT", "IMAGENET1K_V1", "COCO_WITH_VOC_LABELS_V1", "SqueezeNet1_1_Weights.DEFAULT"} do
         assert.matches(("vision.models.squeezenet1_1: weights: expected the path of a file, got %q; no weights are "
            .. "fetched: download torchvision's file for this name, and pass its path"):format(name),
            message_of(function() models.squeezenet1_1 {weights = name} end), 1, true)
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
