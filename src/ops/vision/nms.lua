-- Chooses among overlapping boxes.

op {[[_nms(Tensor boxes, Tensor order, float iou_threshold, Tensor groups=nil) -> Tensor]],
    doc = [[Returns the positions of the boxes (n, 4) x1, y1, x2, y2 that are kept, in the sequence
    of `order`, which lists all positions from the best box to the worst. A box is removed if the
    quotient of its intersection and its union with a kept box before it is above iou_threshold;
    with groups (n), only boxes of the same number remove one another. torch.vision.ops.nms calls
    it.]],
    method = false, nondiff = "positions", waits = "the result's shape depends on the data",
    examples = {"T(3, 4), torch.tensor{2, 3, 1}, 0.5",
                "T(3, 4), torch.tensor{2, 3, 1}, 0.5, torch.tensor{1, 2, 1}"}}
