-- Tests torch.vision.ops. Results and gradients must equal those that fixtures/ops.py has written with torchvision, and
-- wrong arguments must be refused.

local torch = require "tlua"
local device = require "spec.support.device"

local ops = torch.vision.ops

local folder <const> = "rocks/vision/spec/fixtures/"
local saved = torch.load(folder .. "ops.pt")

local function place(x) return x:to(device.name or "cpu") end
local F = setmetatable({}, {__index = function(_, key)
   return place(assert(saved[key], "no " .. key))
end})

local function near(expected, actual, tolerance, what)
   actual = actual:detach():cpu()
   assert.same({table.unpack(expected.shape)}, {table.unpack(actual.shape)})
   if expected:numel() == 0 then return end
   local difference = (expected:cpu():double() - actual:double()):abs():max():item()
   assert.is_true(difference <= (tolerance or 1e-5), ("%s differs by %g"):format(what or "it", difference))
end

local function message_of(fn, ...) return select(2, pcall(fn, ...)) end

describe("boxes", function()
   it("have torchvision's overlaps", function()
      for _, name in ipairs {"box_iou", "generalized_box_iou", "distance_box_iou", "complete_box_iou"} do
         near(saved[name], ops[name](F.a, F.b), 1e-6, name)
      end
   end)

   it("have torchvision's losses and their gradients", function()
      for _, name in ipairs {"generalized_box_iou_loss", "distance_box_iou_loss", "complete_box_iou_loss"} do
         local x = F.a:clone():requires_grad_()
         local loss = ops[name](x, F.pair)
         loss:sum():backward()
         near(saved[name], loss, 1e-6, name)
         near(saved[name .. "_grad"], x.grad, 1e-6, name)
      end
      assert.is_true(math.abs(ops.generalized_box_iou_loss(F.a, F.pair, {reduction = "mean"}):item()
         - saved.generalized_box_iou_loss:mean():item()) < 1e-6)
   end)

   it("are converted, clipped, measured and found in masks", function()
      near(saved.cxcywh, ops.box_convert(F.a, "xyxy", "cxcywh"))
      near(saved.xywh, ops.box_convert(F.a, "xyxy", "xywh"))
      near(saved.a, ops.box_convert(F.cxcywh, "cxcywh", "xyxy"))
      near(saved.a, ops.box_convert(F.xywh, "xywh", "xyxy"))
      near(saved.cxcywh, ops.box_convert(F.xywh, "xywh", "cxcywh"))
      near(saved.clipped, ops.clip_boxes_to_image(F.a, {20, 25}))
      assert.same({{0, 0, 0, 0}, {2, 1, 2, 1}}, ops.masks_to_boxes(torch.tensor {{{0, 0, 0}, {0, 0, 0}},
         {{0, 0, 0}, {0, 0, 1}}}):tolist())
      local a, b = torch.tensor {{1.0, 1, 2, 2}}, torch.tensor {{2.0, 2, 2, 2}}
      assert.near(1 / 7, ops.box_iou(a, b, "cxcywh"):item(), 1e-6)
      assert.equal(4, ops.box_area(a, "xywh"):item())
      -- A box without area has no samples if `aligned` is true. Otherwise its sides are widened to 1, so it has
      -- samples.
      local flat = torch.tensor {{1, 3.0, 3, 3, 4}}
      assert.equal(0, ops.roi_align(torch.ones(1, 1, 9, 9), flat, 1, {aligned = true}):item())
      assert.equal(1, ops.roi_align(torch.ones(1, 1, 9, 9), flat, 1):item())
      near(saved.mask_boxes, ops.masks_to_boxes(F.masks))
      assert.same({1}, ops.remove_small_boxes(torch.tensor {{0, 0, 5, 5}, {0, 0, 1, 9}}, 2):tolist())
      assert.same({300 * 300}, ops.box_area(torch.tensor({{0, 0, 300, 300}}, {dtype = "int16"})):tolist())
   end)

   it("remain after suppression as in torchvision", function()
      assert.same(saved.nms:tolist(), ops.nms(F.many, F.scores, 0.4):cpu():tolist())
      assert.same(saved.batched_nms:tolist(), ops.batched_nms(F.many, F.scores, F.classes, 0.4):cpu():tolist())
      assert.equal(0, ops.nms(torch.zeros(0, 4), torch.zeros(0), 0.5):numel())
      assert.equal(0, ops.batched_nms(torch.zeros(0, 4), torch.zeros(0), torch.zeros(0), 0.5):numel())
   end)

   it("remain after suppression if no box before them overlaps too much", function()
      local function check(boxes, scores, classes, threshold)
         local order, overlap = select(2, scores:sort(1, true, {stable = true})):tolist(), ops.box_iou(boxes, boxes)
         overlap = overlap:gt(threshold):logical_and(classes:unsqueeze(1):eq(classes:unsqueeze(2))):tolist()
         local kept = {}
         for _, i in ipairs(order) do
            local is_free = true
            for _, j in ipairs(kept) do is_free = is_free and not overlap[i][j] end
            if is_free then kept[#kept + 1] = i end
         end
         assert.same(kept, ops.batched_nms(boxes, scores, classes, threshold):cpu():tolist())
      end
      local corner = (torch.rand(40, 2) * 20):round()
      local boxes = torch.cat({corner, corner + (torch.rand(40, 2) * 12):round()}, 2)
      local scores, classes = (torch.rand(40) * 4):round(), torch.randint(1, 4, {40})
      for _, threshold in ipairs {0, 0.25, 0.8, -0.5} do check(boxes, scores, classes, threshold) end
      check(boxes:double(), scores:double(), classes:double() / 2, 0.25)
      boxes[{3, 2}] = 0 / 0
      assert.equal(40, ops.nms(boxes, scores, 1):numel())
   end)

   it("are chosen only by positions that exist", function()
      local boxes = torch.zeros(2, 4)
      assert.raises("_nms: order: expected positions from 1 to 2, got 3",
         function() torch._nms(boxes, torch.tensor {1, 3}, 0.5) end)
      assert.raises("_nms: order: expected int64 of shape", function() torch._nms(boxes, torch.tensor {1}, 0.5) end)
      assert.raises("_nms: groups: expected shape",
         function() torch._nms(boxes, torch.tensor {1, 2}, 0.5, torch.zeros(3)) end)
   end)
end)

describe("focal loss", function()
   it("has torchvision's values and gradients", function()
      local x = F.logits:clone():requires_grad_()
      local loss = ops.sigmoid_focal_loss(x, F.targets, {alpha = 0.3, gamma = 1.5})
      loss:sum():backward()
      near(saved.focal, loss, 1e-6)
      near(saved.focal_grad, x.grad, 1e-6)
   end)
end)

describe("regions of interest", function()
   for key, fn in pairs {
      align = function(x) return ops.roi_align(x, F.rois, {3, 2}, 0.4, 2, false) end,
      align_all = function(x) return ops.roi_align(x, F.rois, {3, 2}, 0.4, -1, true) end,
      align_old = function(x) return ops.roi_align(x, F.rois, {3, 2}, 0.4, 0, false) end,
      pool = function(x) return ops.roi_pool(x, F.rois, {3, 2}, 0.4) end,
      ps_align = function(x) return ops.ps_roi_align(x, F.rois, {3, 2}, 0.4, 2) end,
      ps_align_all = function(x) return ops.ps_roi_align(x, F.rois, {3, 2}, 0.4, -1) end,
      ps_pool = function(x) return ops.ps_roi_pool(x, F.rois, {3, 2}, 0.4) end,
   } do
      it("are those of torchvision: " .. key, function()
         local x = F.x:clone():requires_grad_()
         local y = fn(x)
         near(saved[key], y, 2e-5, key)
         local weight = torch.arange(0, 7 * 12 * 6, {dtype = "float32"}):sin()
         local own = place(weight:narrow(1, 1, y:numel()):view_as(y))
         torch.sum(y * own):backward()
         -- In torchvision's ps_roi_pool, the backward pass uses other cells at the edge than the forward pass, so the
         -- gradient is not compared.
         if key ~= "ps_pool" then near(saved[key .. "_grad"], x.grad, 5e-5, key .. "'s gradient") end
      end)
   end

   it("are the same for many channels of a cell as for few", function()
      local x, w = torch.rand(1, 8 * 6, 10, 12):requires_grad_(), torch.rand(2, 8, 2, 3)
      local boxes = {torch.tensor {{0, 1, 7, 9}, {2.5, 0, 11, 4}}}
      for _, name in ipairs {"ps_roi_align", "ps_roi_pool"} do
         local parts = {}
         for c = 1, 8 do parts[c] = ops[name](x:narrow(2, 6 * c - 5, 6), boxes, {2, 3}) end
         local all, each = ops[name](x, boxes, {2, 3}), torch.cat(parts, 2)
         assert.close(each, all, 1e-6)
         assert.close(torch.autograd.grad((each * w):sum(), x), torch.autograd.grad((all * w):sum(), x), 1e-6)
      end
   end)

   it("have the first and second derivatives of finite differences", function()
      local x = torch.randn(1, 4, 6, 6, {dtype = "float64", requires_grad = true})
      local boxes = {torch.tensor {{1.0, 0, 4, 5}, {3.0, 3, 9, 9}}}
      assert.is_true(torch.autograd.gradcheck(function(leaf) return ops.ps_roi_pool(leaf, boxes, 2) end, {x}))
      for _, name in ipairs {"roi_pool", "ps_roi_pool"} do
         local function squares(leaf) return ops[name](leaf, boxes, 2):square() end
         assert.is_true(torch.autograd.gradgradcheck(squares, {x}))
      end
   end)

   it("are pooled from any dtype and layout, from infinities, and from images that exist", function()
      local x = torch.randn(2, 6, 7, 9):half():float()
      x[{1, 1}] = -1 / 0
      -- The second box ends outside of the image, and the third one has no pixels.
      local boxes = torch.tensor {{1, 0.0, 1, 5, 4}, {2, 3, -2, 99, 5}, {2, 20, 20, 30, 30}}
      local maxima, means = ops.roi_pool(x, boxes, {2, 3}), ops.ps_roi_pool(x, boxes, {2, 3})
      assert.equal(-1 / 0, maxima[{1, 1}]:max():item())
      assert.equal(0, maxima[3]:abs():max():item() + means[3]:abs():max():item())
      local strided = x:transpose(3, 4):contiguous():transpose(3, 4)
      for _, own in ipairs {x:half(), x:double(), strided, x:bfloat16():float()} do
         local tolerance = own.dtype == "float32" and torch.equal(own, x) and 0 or 4e-2
         local pooled = ops.roi_pool(own, boxes:long(), {2, 3})
         assert.equal(own.dtype, pooled.dtype)
         assert.close(maxima, pooled:float(), tolerance)
         assert.close(means[{{2, 3}}], ops.ps_roi_pool(own, boxes:half(), {2, 3}):float()[{{2, 3}}], tolerance)
      end
      local leaf = x:clone():fill_(2):requires_grad_()
      ops.roi_pool(leaf, boxes, 1):sum():backward()
      -- The first of several equal pixels gets the gradient, and cells without pixels have none.
      assert.same({1, 1, 12}, {leaf.grad[{1, 6, 2, 1}]:item(), leaf.grad[{2, 1, 1, 4}]:item(), leaf.grad:sum():item()})
      -- no region of an image that does not exist is read
      local strange = torch.tensor {{3, 0.0, 0, 5, 5}, {0, 0, 0, 5, 5}, {0 / 0, 0, 0, 5, 5},
         {1, 0 / 0, -1 / 0, 1 / 0, 5}}
      assert.equal(0, torch._roi_pool(x, strange, {2, 3}, 1, false)[{{1, 3}}]:abs():max():item())
      for _, empty in ipairs {torch.zeros(0, 6, 7, 9), torch.zeros(2, 6, 0, 9)} do
         for _, is_mean in ipairs {false, true} do
            assert.equal(0, torch._roi_pool(empty, boxes, {2, 3}, 1, is_mean):abs():max():item())
         end
      end
      for message, given in pairs {
         ["input: expected floating numbers of shape"] = {x:long(), boxes, {1, 1}},
         ["boxes: expected real numbers of shape"] = {x, boxes:t(), {1, 1}},
         ["size: expected two numbers from 1"] = {x, boxes, {0, 1}},
         ["input: expected a multiple of 1 x 4 channels"] = {x, boxes, {1, 4}},
      } do
         assert.raises("_roi_pool: " .. message, function() torch._roi_pool(given[1], given[2], given[3], 1, true) end)
      end
   end)

   it("may be a list with the boxes of each image, or none", function()
      local x, rois = F.x, saved.rois
      local first, second = {}, {}
      for i = 1, rois:size(1) do table.insert(rois[{i, 1}]:item() == 1 and first or second, i) end
      local function rows(list) return rois:index_select(1, torch.tensor(list, {device = "cpu"})):narrow(2, 2, 4) end
      local listed = ops.roi_align(x, {place(rows(first)), place(rows(second))}, {3, 2}, 0.4, 2)
      local order = torch.tensor(table.move(second, 1, #second, #first + 1, {table.unpack(first)}), {device = "cpu"})
      near(saved.align:index_select(1, order), listed, 2e-5)
      for _, name in ipairs {"roi_align", "roi_pool"} do
         local none = ops[name](x:clone():requires_grad_(), {place(torch.zeros(0, 4)), place(torch.zeros(0, 4))}, 2)
         assert.same({0, 12, 2, 2}, {table.unpack(none.shape)})
      end
   end)

   it("are cut out of the levels of a pyramid", function()
      local pool = ops.MultiScaleRoIAlign({"0", "1"}, 2, 2, {canonical_scale = 20, canonical_level = 3})
      local boxes = {F.levels[1], F.levels[2]}
      near(saved.multi, pool({["0"] = F.m1, ["1"] = F.m2}, boxes, {{64, 60}, {50, 64}}), 2e-5)
   end)
end)

describe("deformable convolution", function()
   it("has torchvision's values and gradients", function()
      local x = {}
      for _, key in ipairs {"dx", "offset", "dw", "db", "mask"} do x[key] = F[key]:clone():requires_grad_() end
      local y = ops.deform_conv2d(x.dx, x.offset, x.dw, x.db,
         {stride = 2, padding = 1, dilation = {1, 2}, mask = x.mask})
      near(saved.deform, y, 2e-5)
      local weight = torch.arange(0, y:numel(), {dtype = "float32"}):sin():view_as(y)
      torch.sum(y * place(weight)):backward()
      for key, leaf in pairs(x) do near(saved[key .. "_grad"], leaf.grad, 1e-4, key) end
   end)

   it("equals a convolution where nothing is moved", function()
      local layer = ops.DeformConv2d(4, 6, 3, {padding = 1, groups = 2})
      local x = torch.randn(2, 4, 5, 6)
      local y = layer(x, torch.zeros(2, 18, 5, 6))
      near(torch.nn.functional.conv2d(x, layer.weight, layer.bias, {padding = 1, groups = 2}):detach(), y, 1e-5)
   end)
end)

describe("layers", function()
   it("of a pyramid have torchvision's values and states", function()
      local fpn, state = ops.FeaturePyramidNetwork({4, 6}, 3), {}
      for key, value in pairs(saved) do
         if key:find "^fpn%." then state[key:sub(5)] = value end
      end
      fpn:load_state_dict(state, {names = "pytorch"})
      local levels = fpn {F.map1, F.map2}
      near(saved.level1, levels[1])
      near(saved.level2, levels[2])
   end)

   it("drop samples or blocks at the given rate", function()
      torch.manual_seed(1)
      local x = torch.ones(4000, 2)
      local y = ops.stochastic_depth(x, 0.25, "row")
      assert.is_true(math.abs(y:mean():item() - 1) < 0.05)
      assert.same({0, 4 / 3}, (y * 3):round():div(3):unique():double():mul(3):round():div(3):tolist())
      assert.is_true(torch.equal(y:select(2, 1), y:select(2, 2)))
      local maps = ops.drop_block2d(torch.ones(200, 4, 12, 12), 0.1, 3)
      local zeros = maps:eq(0):double():mean():item()
      assert.is_true(zeros > 0.07 and zeros < 0.13, zeros)
      assert.is_true(math.abs(maps:mean():item() - 1) < 1e-4)
      local volumes = ops.drop_block3d(torch.ones(50, 2, 8, 8, 8), 0.1, 2)
      assert.is_true(math.abs(volumes:mean():item() - 1) < 1e-4)
      local layer = ops.DropBlock2d(0.5, 3):eval()
      assert.is_true(layer(x) == x)
   end)

   it("freeze a batch normalisation and load its state", function()
      local norm, frozen = torch.nn.BatchNorm2d(3), ops.FrozenBatchNorm2d(3)
      norm.running_mean:normal_()
      norm.running_var:uniform_(1, 2)
      norm:eval()
      frozen:load_state_dict(norm:state_dict())
      local x = torch.randn(2, 3, 4, 4)
      near(norm(x):detach(), frozen(x))
   end)
end)

describe("errors of torch.vision.ops", function()
   it("name boxes that are not numbers or too large, images that are not whole numbers, and inputs without values",
      function()
      local x, nan = torch.randn(1, 4, 8, 8), 0 / 0
      local function refused(message, fn) assert.raises("vision.ops." .. message, fn) end
      for _, box in ipairs {{nan, 0, 1, 1}, {0, 0, 1 / 0, 1}} do
         for _, name in ipairs {"roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool"} do
            refused(name .. ": boxes: expected finite numbers, got nan or inf",
               function() ops[name](x, {torch.tensor {box}}, 2) end)
         end
      end
      refused("roi_align: boxes: expected at most 67108864 samples for a box, got 1000000000 x 1000000000 of them",
         function() ops.roi_align(x, {torch.tensor {{0, 0, 1e9, 1e9}}}, 2) end)
      for _, image in ipairs {nan, 0.5} do
         refused("roi_align: boxes: expected", function() ops.roi_align(x, torch.tensor {{image, 0, 0, 1, 1}}, 2) end)
      end
      refused("roi_align: boxes: expected whole numbers in the first column",
         function() ops.roi_align(torch.randn(2, 1, 4, 4), torch.tensor {{1.5, 0, 0, 1, 1}}, 2) end)
      refused("roi_pool: input: expected at least one value",
         function() ops.roi_pool(torch.zeros(1, 2, 0, 8), {torch.zeros(1, 4)}, 2) end)
   end)

   it("name the argument of a layer that is not a tensor", function()
      local pool = ops.MultiScaleRoIAlign({1, 2}, 2, 2)
      local maps = {torch.zeros(1, 3, 8, 8), torch.zeros(1, 3, 4, 4)}
      for message, fn in pairs {
         ["DropBlock2d: input: expected a tensor of 4 dimensions, got nil"] = function() ops.DropBlock2d(0.1, 2)() end,
         ["DeformConv2d: input: expected a tensor of shape (N, C, H, W), got \"a\""] = function()
            ops.DeformConv2d(4, 8, 3)("a")
         end,
         ["DeformConv2d: offset: expected a tensor, got nil"] = function()
            ops.DeformConv2d(4, 8, 3)(torch.zeros(1, 4, 5, 5))
         end,
         ["Permute: input: expected a tensor, got nil"] = function() ops.Permute {1, 2}() end,
         ["StochasticDepth: input: expected a tensor, got 3"] = function() ops.StochasticDepth(0.5, "row")(3) end,
         ["MultiScaleRoIAlign: maps: expected a table of feature maps, got nil"] = function() pool() end,
         ["MultiScaleRoIAlign: boxes: expected a list of tensors (n, 4), one for each image, got nil"] =
            function() pool(maps) end,
         ["MultiScaleRoIAlign: boxes[1]: expected a tensor of shape (n, 4), got \"a\""] = function()
            pool(maps, {"a"}, {{8, 8}})
         end,
         ["MultiScaleRoIAlign: sizes[1]: expected {height, width}, got \"a\""] = function()
            pool(maps, {torch.zeros(1, 4)}, {"a"})
         end,
      } do
         assert.raises("vision.ops." .. message, fn)
      end
   end)

   it("leave out NaN among the pixels of a cell", function()
      local x = torch.tensor {{{{0 / 0, 2, 5}, {1, 0 / 0, 0 / 0}}}}
      local boxes = {torch.tensor {{0.0, 0, 1, 1}, {2, 0, 2, 1}, {2, 1, 2, 1}}}
      local expected = {2, 5}
      local plain, with_grad = ops.roi_pool(x, boxes, 1), ops.roi_pool(x:clone():requires_grad_(), boxes, 1)
      for _, y in ipairs {plain, with_grad:detach()} do
         assert.same(expected, y:flatten():narrow(1, 1, 2):tolist())
         assert.is_true(y:flatten()[3]:isnan():item())
      end
   end)

   it("name the argument, its shape and the expected one", function()
      local x = torch.zeros(1, 4, 8, 8)
      for expected, fn in pairs {
         ["ops_spec.lua:%d+: vision.ops.box_iou: boxes1: expected a tensor of shape %(n, 4%), got a float32 tensor of "
            .. "shape %(4%)"] = function() ops.box_iou(torch.zeros(4), torch.zeros(1, 4)) end,
         ['vision.ops.box_convert: in_fmt: expected "xyxy", "xywh" or "cxcywh", got "xxyy"'] = function()
            ops.box_convert(torch.zeros(1, 4), "xxyy", "xywh")
         end,
         ["vision.ops.nms: scores: expected a tensor of shape %(2%)"] = function()
            ops.nms(torch.zeros(2, 4), torch.zeros(3), 0.5)
         end,
         ['vision.ops.box_iou: fmt: expected "xyxy", "xywh" or "cxcywh", got "xyhw"'] = function()
            ops.box_iou(torch.zeros(1, 4), torch.zeros(1, 4), "xyhw")
         end,
         ["vision.ops.roi_align: boxes: expected images from 1 to 1 in the first column, got 0"] = function()
            ops.roi_align(x, torch.zeros(1, 5), 2)
         end,
         ["vision.ops.roi_align: boxes: expected a tensor %(n, 5%), or a list of tensors for 1 images"] = function()
            ops.roi_align(x, {torch.zeros(1, 4), torch.zeros(1, 4)}, 2)
         end,
         ["vision.ops.ps_roi_pool: input: expected a multiple of 3 x 3 channels, got 4"] = function()
            ops.ps_roi_pool(x, {torch.zeros(1, 4)}, 3)
         end,
         ["vision.ops.deform_conv2d: offset: expected a tensor of shape %(1, 18 %* groups, 6, 6%)"] = function()
            ops.deform_conv2d(x, torch.zeros(1, 18, 8, 8), torch.zeros(2, 4, 3, 3))
         end,
         ["vision.ops.stochastic_depth: p: expected a number from 0 to 1, got 2"] = function()
            ops.stochastic_depth(x, 2, "row")
         end,
         ["vision.ops.FeaturePyramidNetwork: maps: expected a list of 2 feature maps"] = function()
            ops.FeaturePyramidNetwork({4, 6}, 3) {x}
         end,
      } do
         assert.matches(expected, message_of(fn))
      end
   end)
end)
