"""Where nodes come from: plan, launch, observe, stop. A target starts nodes and knows nothing of what they do."""
