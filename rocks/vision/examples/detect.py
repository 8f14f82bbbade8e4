"""Prints the mean average precision of the files that detect.lua has written, by pycocotools:

    python detect.py FOLDER
"""
import sys

from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

folder = sys.argv[1]
truth = COCO(folder + "/truth.json")
evaluation = COCOeval(truth, truth.loadRes(folder + "/found.json"), "bbox")
evaluation.evaluate()
evaluation.accumulate()
evaluation.summarize()
print("mAP %.4f  mAP at 0.5 %.4f" % (evaluation.stats[0], evaluation.stats[1]))
