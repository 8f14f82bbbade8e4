-- Tests torch.vision.models.detection. Detectors on a tiny backbone must have the detections, losses and gradients that
-- fixtures/detection.py has written with torchvision, and wrong images and targets must be refused.

local torch = require "tlua"

local nn = torch.nn
local models, ops = torch.vision.models, torch.vision.ops
local D = models.detection

local device = require "spec.support.device"
local saved = device.moved(torch.load "rocks/vision/spec/fixtures/detection.pt")

local function wave(shape, phase, scale)
   local n = 1
   for _, size in ipairs(shape) do n = n * size end
   local x = torch.arange(n, {dtype = "float64"})
   return ((x * (1 + phase / 97) + phase):cos() * scale):view(shape)
end

-- Fills a model with the weights of fixtures/detection.py.
local function fill(model)
   local state, keys = model:state_dict {names = "pytorch"}, {}
   for key in pairs(state) do keys[#keys + 1] = key end
   table.sort(keys)
   for i, key in ipairs(keys) do
      local value = state[key]
      local scale = value:dim() > 1 and 3 * (value:numel() / value:size(1)) ^ -0.5 or 0.3
      value:copy_(wave({table.unpack(value.shape)}, i - 1, scale))
   end
   return model:double()
end

-- A backbone with two maps of 32 channels, whose sides are a quarter and an eighth of the image's. If `levels` is 3,
-- the backbone has a third map.
local Body = torch.class("Body", nn.Module)

function Body:__init(levels, channels)
   self.first, self.second = nn.Conv2d(3, 8, 4, {stride = 4}), nn.Conv2d(8, 8, 2, {stride = 2})
   self.fpn = ops.FeaturePyramidNetwork({8, 8}, 32,
      {extra_blocks = levels == 3 and ops.LastLevelMaxPool() or nil})
   self.out_channels, self.levels = channels or 32, 2
end

function Body:forward(x)
   local a = self.first(x)
   return self.fpn {a, self.second(a:relu())}
end

local function pool(size) return ops.MultiScaleRoIAlign({1, 2}, size, 2, {canonical_scale = 32}) end

local function two_stages(more)
   local options = {
      min_size = 48, max_size = 80, rpn_anchor_generator = D.AnchorGenerator({{12}, {24}, {40}}, {0.5, 1, 2}),
      box_roi_pool = pool(3), rpn_batch_size_per_image = 1000000, box_batch_size_per_image = 1000000,
      rpn_pre_nms_top_n_train = 60, rpn_post_nms_top_n_train = 20, rpn_pre_nms_top_n_test = 60,
      rpn_post_nms_top_n_test = 20, box_score_thresh = 0.25, box_detections_per_img = 6,
   }
   for key, value in pairs(more or {}) do options[key] = value end
   return options
end

local build = {}

function build.faster() return D.FasterRCNN(Body(3), 4, two_stages()) end

function build.mask()
   return D.MaskRCNN(Body(3), 4, two_stages {
      mask_roi_pool = pool(4),
      mask_head = nn.Sequential(ops.Conv2dNormActivation(32, 8, {norm_layer = false}),
         ops.Conv2dNormActivation(8, 8, {norm_layer = false})),
      mask_predictor = nn.Sequential {{"conv5_mask", nn.ConvTranspose2d(8, 8, 2, {stride = 2})}, {"relu", nn.ReLU()},
         {"mask_fcn_logits", nn.Conv2d(8, 4, 1)}},
   })
end

-- Computes heat maps for three points. The sides of the heat maps are four times as long as those of the input.
local Points = torch.class("Points", nn.Module)

function Points:__init() self.kps_score_lowres = nn.ConvTranspose2d(8, 3, 4, {stride = 2, padding = 1}) end

function Points:forward(x)
   return nn.functional.interpolate(self.kps_score_lowres(x), {scale_factor = 2, mode = "bilinear"})
end

function build.keypoint()
   return D.KeypointRCNN(Body(3), 4, two_stages {
      keypoint_roi_pool = pool(4), keypoint_head = nn.Sequential(nn.Conv2d(32, 8, 3, {padding = 1}), nn.ReLU()),
      keypoint_predictor = Points(),
   })
end

function build.retinanet()
   return D.RetinaNet(Body(2), 4, {min_size = 48, max_size = 80, score_thresh = 0.6, detections_per_img = 20,
      anchor_generator = D.AnchorGenerator({{16, 20}, {32, 40}}, {0.5, 1, 2})})
end

function build.fcos()
   return D.FCOS(Body(2), 4, {min_size = 48, max_size = 80, score_thresh = 0.5, detections_per_img = 20,
      anchor_generator = D.AnchorGenerator({{4}, {8}}, {1})})
end

function build.ssd()
   return D.SSD(Body(2, {32, 32}), D.DefaultBoxGenerator {{2}, {2, 3}}, {64, 48}, 4,
      {score_thresh = 0.3, detections_per_img = 20})
end

local images = {wave({3, 56, 50}, 0, 0.5) + 0.5, wave({3, 48, 64}, 1, 0.5) + 0.5}

-- Returns the same targets as fixtures/detection.py uses.
local function targets()
   local list = {}
   for i, rows in ipairs {{{4, 6, 30, 25}, {20, 10, 44, 50}, {2, 30, 18, 52}}, {{10, 8, 40, 36}}} do
      local n, height, width = #rows, images[i]:size(2), images[i]:size(3)
      local target = {
         boxes = torch.tensor(rows, {dtype = "float64"}) + 0.3, labels = torch.arange(2, n + 2, {dtype = "int64"}),
         masks = torch.zeros(n, height, width, {dtype = "uint8"}), keypoints = torch.zeros(n, 3, 3),
      }
      for k, row in ipairs(rows) do
         local x1, y1, x2, y2 = table.unpack(row)
         target.masks[{k, {y1 + 1, y2}, {x1 + 1, x2}}] = 1
         target.keypoints[k]:copy_(torch.tensor {{x1 + 3.2, y1 + 5.1, 1}, {x2 - 2.3, y2 - 3.4, 1},
            {x1 + 1.0, y2 - 6.2, 0}})
      end
      list[i] = target
   end
   return list
end

local function near(expected, actual, what)
   assert.same({table.unpack(expected.shape)}, {table.unpack(actual.shape)}, what)
   local scale = math.max(expected:double():abs():max():item(), 1e-6)
   local difference = (expected:double() - actual:double()):abs():max():item() / scale
   assert.is_true(difference < 2e-5, ("%s differs by %g"):format(what, difference))
end

describe("torch.vision.models.detection", function()
   for _, name in ipairs {"faster", "mask", "keypoint", "retinanet", "fcos", "ssd"} do
      it("has torchvision's detections, losses and gradients: " .. name, function()
         local model = fill(build[name]())
         model:eval()
         local found = torch.no_grad(function() return model(images) end)
         for i, detection in ipairs(found) do
            for key, value in pairs(detection) do
               local expected = saved[("%s.%d.%s"):format(name, i, key)]
               if key == "labels" then expected = expected + 1 end
               near(expected, value, key)
            end
         end
         model:train()
         local losses, total, seen = model(images, targets()), 0, 0
         for key, loss in pairs(losses) do
            near(saved[("%s.loss.%s"):format(name, key)]:view(1), loss:detach():view(1), key)
            total, seen = total + loss, seen + 1
         end
         for key in pairs(saved) do
            if key:find("^" .. name .. "%.loss") then seen = seen - 1 end
         end
         assert.equal(0, seen)
         total:backward()
         local sum = 0
         for _, p in ipairs(model:parameters()) do sum = sum + (p.grad and p.grad:abs():sum():item() or 0) end
         assert.is_true(math.abs(sum / saved[name .. ".gradients"]:item() - 1) < 1e-5)
      end)
   end

   it("learns from images without objects", function()
      local none = {boxes = torch.zeros(0, 4, {dtype = "float64"}), labels = torch.zeros(0, {dtype = "int64"}),
         masks = torch.zeros(0, 48, 64, {dtype = "uint8"}), keypoints = torch.zeros(0, 3, 3)}
      for name, make in pairs(build) do
         local total = 0
         for _, loss in pairs(fill(make())({images[2]}, {none})) do total = total + loss end
         assert.is_true(total:item() == total:item() and total:item() < math.huge, name)
         total:backward()
      end
   end)

   it("makes the anchors of torchvision", function()
      local make = D.AnchorGenerator({{32}, {64}}, {0.5, 1, 2})
      local maps = {torch.zeros(1, 1, 2, 3), torch.zeros(1, 1, 1, 1)}
      local boxes = make({tensors = torch.zeros(1, 3, 64, 96), sizes = {{64, 96}}}, maps)[1]
      assert.same({21, 4}, {table.unpack(boxes.shape)})
      assert.same({-23, -11, 23, 11}, boxes[1]:tolist())
      assert.same({-11 + 32, -23, 11 + 32, 23}, boxes[6]:tolist())
      assert.same({-32, -32, 32, 32}, boxes[20]:tolist())
   end)

   it("freezes the first stages of backbones", function()
      local body = D.resnet_fpn_backbone("resnet18", {trainable_layers = 2, returned_layers = {3, 4}})
      assert.is_false(body.body.layer2[1].conv1.weight.requires_grad)
      assert.is_true(body.body.layer3[1].conv1.weight.requires_grad)
      assert.equal("vision.ops.FrozenBatchNorm2d", torch.type(body.body.bn1))
      local maps = body(torch.zeros(1, 3, 64, 64))
      assert.same({1, 256, 4, 4}, {table.unpack(maps[1].shape)})
      assert.equal(3, #maps)
   end)

   it("loads states with the names of earlier versions", function()
      local old, new = fill(build.faster()), build.faster():double()
      local state = {}
      for key, value in pairs(old:state_dict {names = "pytorch"}) do
         key = key:gsub("^(rpn%.head%.conv%.)0%.0%.", "%1"):gsub("^(backbone%.fpn%.%a+_blocks%.%d%.)0%.", "%1")
         state[key] = value
      end
      assert.is_true(state["rpn.head.conv.weight"] ~= nil and state["backbone.fpn.inner_blocks.1.weight"] ~= nil)
      new:load_state_dict(state, {names = "pytorch"})
      assert.is_true(torch.equal(old.rpn.head.conv[1][1].weight, new.rpn.head.conv[1][1].weight))
   end)
end)

describe("errors of torch.vision.models.detection", function()
   local function message_of(fn, ...) return select(2, pcall(fn, ...)) end

   it("name the image or target that does not fit", function()
      local model, good = build.faster():double(), targets()
      local function with(key, value)
         local list = targets()
         list[2][key] = value
         return message_of(model, images, list)
      end
      for expected, message in pairs {
         ["detection_spec.lua:%d+: vision.models.detection.FasterRCNN: images: expected a list of images"] =
            message_of(function() model {} end),
         ["images%[2%]: expected floating numbers of shape %(C, H, W%), got nil"] =
            message_of(model, {images[1], nil, images[2]}, good),
         ["images%[1%]: expected floating numbers of shape %(C, H, W%), got a uint8 tensor"] =
            message_of(model, {torch.zeros(3, 4, 4, {dtype = "uint8"})}, good),
         ["targets: expected a list of 2 tables with boxes and labels, one for each image, got nil"] =
            message_of(model, images),
         ["targets: expected a list of 2 tables .- got 1$"] = message_of(model, images, {good[1]}),
         ["targets%[2%].boxes: expected floating numbers of shape %(n, 4%)"] = with("boxes", torch.zeros(4)),
         ["targets%[2%].boxes: expected corners x1 < x2 and y1 < y2, got %(5, 5, 5, 9%)"] =
            with("boxes", torch.tensor {{5.0, 5, 5, 9}}),
         ["targets%[2%].labels: expected an int64 tensor of shape %(1%)"] = with("labels", torch.tensor {1, 2}),
         ["targets%[2%].labels: expected classes from 2 to 4 %(1 is the background%), got 1"] =
            with("labels", torch.tensor {1}),
         ["targets%[2%].labels: expected classes from 2 to 4 %(1 is the background%), got 5"] =
            with("labels", torch.tensor {5}),
         ["expected 3 channels, one for each number of image_mean, got 1"] =
            message_of(model, {torch.rand(1, 9, 9), torch.rand(1, 9, 9)}, good),
         ["labels: expected classes from 1 to 4, got 0"] =
            message_of(build.fcos(), {images[2]}, {{boxes = good[2].boxes, labels = torch.tensor {0}}}),
         ["targets%[1%].masks: expected a tensor of shape %(1, H, W%), got nil"] =
            message_of(build.mask(), {images[2]}, {{boxes = good[2].boxes, labels = good[2].labels}}),
         ["targets%[2%].boxes: expected corners x1 < x2 and y1 < y2, got %(%-?nan, 5, 6, 9%)"] =
            with("boxes", torch.tensor {{0 / 0, 5, 6, 9}}),
         ["targets%[1%].masks: expected masks of the image's size, %(1, %d+, %d+%), got a float32"] =
            message_of(build.mask(), {images[2]}, {{boxes = good[2].boxes, labels = good[2].labels,
               masks = torch.ones(1, 5, 5)}}),
         ["targets%[1%].masks: expected 0 and 1, got 255"] =
            message_of(build.mask(), {images[2]}, {{boxes = good[2].boxes, labels = good[2].labels,
               masks = images[2]:narrow(1, 1, 1):clone():fill_(255)}}),
         ["trainable_layers: expected numbers from 0 to 5, got 2.5"] = message_of(D.fasterrcnn_resnet50_fpn,
            {trainable_backbone_layers = 2.5}),
         ["FasterRCNN: backbone: expected a model with the field out_channels"] =
            message_of(D.FasterRCNN, nn.Linear(1, 1), 3),
         ["FasterRCNN: unknown option box_score_tresh; did you mean box_score_thresh%?"] =
            message_of(D.FasterRCNN, Body(3), 3, {box_score_tresh = 1}),
         ["resnet_fpn_backbone: backbone_name: expected a ResNet's name"] =
            message_of(D.resnet_fpn_backbone, "resnet17"),
         ["AnchorGenerator: maps: expected 3 feature maps, one for each list of sizes, got 2$"] = message_of(
            D.AnchorGenerator({{1}, {2}, {3}}, {1}), {tensors = images[1]:unsqueeze(1), sizes = {{1, 1}}},
            {images[1]:unsqueeze(1), images[1]:unsqueeze(1)}),
      } do
         assert.matches(expected, message)
      end
   end)
end)
