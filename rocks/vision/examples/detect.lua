-- detect.lua - trains a small Faster R-CNN on random drawings of discs, squares and triangles.
-- Prints the mean average precision by COCO's rules.
--
--    tlua rocks/vision/examples/detect.lua [steps] [folder]
--
-- The program writes three files to the folder: found.png, a picture of the detections, and
-- truth.json and found.json, which have the boxes in COCO's format. detect.py checks the JSON files
-- with pycocotools.

local torch = require "tlua"

local nn, optim = torch.nn, torch.optim
local ops, utils = torch.vision.ops, torch.vision.utils
local detection = torch.vision.models.detection

local steps, folder = tonumber(arg[1]) or 400, arg[2] or "."
local side <const> = 96
local names <const> = {"background", "disc", "square", "triangle"}

torch.manual_seed(1)
math.randomseed(1)

-- Data --------------------------------------------------------------------------------------------

local x = torch.arange(side):view(1, side):expand(side, side):float()
local y = torch.arange(side):view(side, 1):expand(side, side):float()

-- Returns which pixels belong to a shape whose centre is (cx, cy). The sides of the shape's box
-- have length 2r.
local function shape(label, cx, cy, r)
   local dx, dy = x + 0.5 - cx, y + 0.5 - cy
   if label == 2 then return (dx * dx + dy * dy):le(r * r) end
   local inside = dx:abs():le(r):logical_and(dy:abs():le(r))
   if label == 3 then return inside end
   return inside:logical_and(dx:abs():le((dy + r) / 2))
end

-- Draws an image with one to three shapes. Returns the image and its target.
local function draw()
   local image = torch.rand(3, side, side) * 0.3 + torch.rand(3, 1, 1) * 0.3
   local boxes, labels = {}, {}
   for _ = 1, math.random(3) do
      local r = 8 + math.random() * 12
      local cx, cy = r + math.random() * (side - 2 * r), r + math.random() * (side - 2 * r)
      local box, is_free = {cx - r, cy - r, cx + r, cy + r}, true
      for _, other in ipairs(boxes) do
         local overlap = ops.box_iou(torch.tensor {box}, torch.tensor {other}):item()
         is_free = is_free and overlap < 0.05
      end
      if is_free then
         local label = math.random(2, #names)
         local pixels = shape(label, cx, cy, r)
         for c = 1, 3 do image[c]:masked_fill_(pixels, 0.4 + 0.6 * math.random()) end
         boxes[#boxes + 1], labels[#labels + 1] = box, label
      end
   end
   return image, {boxes = torch.tensor(boxes), labels = torch.tensor(labels)}
end

local function batch(count)
   local images, targets = {}, {}
   for i = 1, count do images[i], targets[i] = draw() end
   return images, targets
end

-- The model ---------------------------------------------------------------------------------------

local function conv(inputs, outputs, stride)
   return ops.Conv2dNormActivation(inputs, outputs, {stride = stride})
end

-- Returns a network that computes three feature maps. The sides of the maps are a quarter, an
-- eighth and a sixteenth of the image's sides.
local function small_body()
   local layers = nn.Sequential(conv(3, 16, 2), conv(16, 32, 2), conv(32, 32, 1), conv(32, 64, 2),
      conv(64, 64, 1), conv(64, 96, 2), conv(96, 96, 1))
   return detection.BackboneWithFPN(layers, {[3] = 1, [5] = 2, [7] = 3}, {32, 64, 96}, 48)
end

local model = detection.FasterRCNN(small_body(), #names, {
   min_size = side, box_head = detection.TwoMLPHead(48 * 7 * 7, 128),
   box_predictor = detection.FastRCNNPredictor(128, #names),
   rpn_anchor_generator = detection.AnchorGenerator({{16}, {24}, {36}, {48}}, {1.0}),
   rpn_pre_nms_top_n_train = 100, rpn_post_nms_top_n_train = 50,
   rpn_pre_nms_top_n_test = 60, rpn_post_nms_top_n_test = 30,
   rpn_batch_size_per_image = 64, box_batch_size_per_image = 32,
})
local optimizer = optim.AdamW(model:parameters(), {lr = 2e-3, weight_decay = 1e-3})
local schedule = optim.lr_scheduler.OneCycleLR(optimizer, {max_lr = 4e-3, total_steps = steps})

local start = os.time()
for step = 1, steps do
   local images, targets = batch(4)
   local total = 0
   for _, loss in pairs(model(images, targets)) do total = total + loss end
   optimizer:zero_grad()
   total:backward()
   nn.utils.clip_grad_norm_(model:parameters(), 5)
   optimizer:step()
   schedule:step()
   if step % 50 == 0 then print(("step %d  loss %.3f"):format(step, total:item())) end
end
print(("%d s of training"):format(os.time() - start))

-- Evaluation --------------------------------------------------------------------------------------

-- Returns the average precision of a class. A detection is right if its overlap with a box is at
-- least `overlap`. The best precision at each of 101 values of recall is taken, and the mean of
-- these is returned. `found` and `truth` are lists with the detections and the boxes of each image.
local function average_precision(found, truth, label, overlap)
   local ranked, count = {}, 0
   for i, own in ipairs(found) do
      local boxes = truth[i].boxes:index_select(1, truth[i].labels:eq(label):nonzero():squeeze(2))
      count = count + boxes:size(1)
      local taken = {}
      for k = 1, own.scores:numel() do
         if own.labels[k]:item() == label then
            local best, which = overlap, nil
            local shared = boxes:size(1) > 0 and ops.box_iou(own.boxes:narrow(1, k, 1), boxes)[1]
            for j = 1, boxes:size(1) do
               local value = shared[j]:item()
               if not taken[j] and value >= best then best, which = value, j end
            end
            if which then taken[which] = true end
            ranked[#ranked + 1] = {own.scores[k]:item(), which ~= nil, #ranked}
         end
      end
   end
   table.sort(ranked, function(a, b) return a[1] > b[1] or a[1] == b[1] and a[3] < b[3] end)
   local right, precision, recall = 0, {}, {}
   for k, row in ipairs(ranked) do
      right = right + (row[2] and 1 or 0)
      precision[k], recall[k] = right / k, right / count
   end
   for k = #precision - 1, 1, -1 do precision[k] = math.max(precision[k], precision[k + 1]) end
   local sum, k = 0, 1
   for i = 0, 100 do
      while recall[k] and recall[k] < i / 100 do k = k + 1 end
      sum = sum + (precision[k] or 0)
   end
   return sum / 101
end

model:eval()
local images, truth = batch(60)
local found = torch.no_grad(function() return model(images) end)

local function mean_precision(overlaps)
   local sum, count = 0, 0
   for label = 2, #names do
      for _, overlap in ipairs(overlaps) do
         sum, count = sum + average_precision(found, truth, label, overlap), count + 1
      end
   end
   return sum / count
end

local overlaps = {}
for i = 0, 9 do overlaps[i + 1] = 0.5 + 0.05 * i end
print(("mAP %.4f  mAP at 0.5 %.4f"):format(mean_precision(overlaps), mean_precision {0.5}))

-- Files -------------------------------------------------------------------------------------------

local function write(name, text)
   local file = assert(io.open(folder .. "/" .. name, "w"))
   file:write(text)
   file:close()
end

-- Returns an object as a row of COCO's lists, in JSON. Categories are labels minus 1, which count
-- from 0 as torchvision's labels do.
local function row(image, boxes, labels, k, more)
   local x1, y1, x2, y2 = table.unpack(boxes[k]:double():tolist())
   return ('{"image_id": %d, "category_id": %d, "bbox": [%.17g, %.17g, %.17g, %.17g], %s}'):format(
      image, labels[k]:item() - 1, x1, y1, x2 - x1, y2 - y1, more(x2 - x1, y2 - y1))
end

local listed, boxes, results, categories = {}, {}, {}, {}
for i = 1, #images do
   listed[i] = ('{"id": %d, "width": %d, "height": %d}'):format(i, side, side)
   for k = 1, truth[i].labels:numel() do
      boxes[#boxes + 1] = row(i, truth[i].boxes, truth[i].labels, k, function(w, h)
         return ('"id": %d, "iscrowd": 0, "area": %.17g'):format(#boxes + 1, w * h)
      end)
   end
   for k = 1, found[i].labels:numel() do
      results[#results + 1] = row(i, found[i].boxes, found[i].labels, k, function()
         return ('"score": %.17g'):format(found[i].scores[k]:item())
      end)
   end
end
for label = 2, #names do
   categories[#categories + 1] = ('{"id": %d, "name": "%s"}'):format(label - 1, names[label])
end
write("truth.json", ('{"images": [%s],\n"categories": [%s],\n"annotations": [%s]}\n'):format(
   table.concat(listed, ",\n"), table.concat(categories, ", "), table.concat(boxes, ",\n")))
write("found.json", "[" .. table.concat(results, ",\n") .. "]\n")

local pictures = {}
for i = 1, 8 do
   local good = found[i].scores:gt(0.5):nonzero():squeeze(2)
   local colours, labels = {}, found[i].labels:index_select(1, good):tolist()
   for k, label in ipairs(labels) do colours[k] = ({"", "red", "lime", "yellow"})[label] end
   pictures[i] = #labels > 0 and utils.draw_bounding_boxes(images[i],
      found[i].boxes:index_select(1, good), {colors = colours}) or images[i]
end
utils.save_image(pictures, folder .. "/found.png", {nrow = 4})
